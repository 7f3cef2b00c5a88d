"""``isvc``: the command line. Only this package reads arguments and environment variables."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from isvc_operator import __version__
from isvc_operator.cli import migrate as migrate_command
from isvc_operator.cli import new as new_command
from isvc_operator.cli import operator as operator_command
from isvc_operator.cli import render as render_command
from isvc_operator.cli import run as run_command
from isvc_operator.cli import validate as validate_command
from isvc_operator.cli.exit_codes import EXIT_FAILED, EXIT_INVALID
from isvc_operator.errors import OperatorError
from isvc_operator.kube.errors import KubeError
from isvc_operator.local.errors import RunFailed
from isvc_operator.migrate.errors import MigrationFailed
from isvc_operator.text import visible


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``isvc COMMAND`` and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="isvc", description="Serve InferenceServices on Kubernetes or on this machine."
    )
    parser.add_argument("--version", action="version", version=f"isvc {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (run_command, render_command, validate_command, new_command, migrate_command, operator_command):
        module.add_parser(commands, os.environ)
    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments) or 0
    except (RunFailed, MigrationFailed, KubeError) as error:
        return _fail(error, EXIT_FAILED)
    except OperatorError as error:
        return _fail(error, EXIT_INVALID)


def _fail(error: OperatorError, exit_code: int) -> int:
    sys.stderr.write(f"isvc: {visible(str(error))}\n")
    return exit_code
