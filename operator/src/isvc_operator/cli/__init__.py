"""``isvc``: the command line. Only this package reads arguments and environment variables."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from isvc_operator import __version__
from isvc_operator.cli import new as new_command
from isvc_operator.cli import operator as operator_command
from isvc_operator.cli import render as render_command
from isvc_operator.cli import run as run_command
from isvc_operator.errors import OperatorError
from isvc_operator.local.errors import RunFailed
from isvc_operator.text import visible

EXIT_FAILED = 1
EXIT_INVALID = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``isvc COMMAND`` and return the exit code: 0 success, 1 failure, 2 invalid input."""
    parser = argparse.ArgumentParser(
        prog="isvc", description="Serve InferenceServices on Kubernetes or on this machine."
    )
    parser.add_argument("--version", action="version", version=f"isvc {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (run_command, render_command, new_command, operator_command):
        module.add_parser(commands, os.environ)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except RunFailed as error:
        return _fail(error, EXIT_FAILED)
    except OperatorError as error:
        return _fail(error, EXIT_INVALID)
    return 0


def _fail(error: OperatorError, exit_code: int) -> int:
    sys.stderr.write(f"isvc: {visible(str(error))}\n")
    return exit_code
