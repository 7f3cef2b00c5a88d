"""``python -m isvc_operator``: the operator."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from isvc_operator.cli.operator import add_flags
from isvc_operator.errors import OperatorError

# The first process of a container gets only the signals that it handles: until the operator does, one ends it here.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
parser = argparse.ArgumentParser(prog="python -m isvc_operator", description="The InferenceService operator.")
add_flags(parser, os.environ)
arguments = parser.parse_args()
try:
    sys.exit(arguments.run(arguments))
except OperatorError as error:
    sys.stderr.write(f"isvc_operator: {error}\n")
    sys.exit(2)
