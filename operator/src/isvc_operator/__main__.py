"""``python -m isvc_operator``: the operator."""

from __future__ import annotations

import argparse
import os
import sys

from isvc_operator.cli.operator import add_flags
from isvc_operator.errors import OperatorError

parser = argparse.ArgumentParser(prog="python -m isvc_operator", description="The InferenceService operator.")
add_flags(parser, os.environ)
arguments = parser.parse_args()
try:
    sys.exit(arguments.run(arguments))
except OperatorError as error:
    sys.stderr.write(f"isvc_operator: {error}\n")
    sys.exit(2)
