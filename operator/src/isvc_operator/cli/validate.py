"""``isvc validate``: say what the API server and the operator would say of files, without a cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from isvc_operator.cli.exit_codes import EXIT_INVALID, EXIT_NO_EFFECT
from isvc_operator.cli.render import add_files, add_flags, check_files
from isvc_operator.local.check import Severity


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser], env: Mapping[str, str]) -> None:
    """Add the command."""
    parser = commands.add_parser("validate", help="check services and runtimes before they are applied")
    add_files(parser)
    add_flags(parser, env)
    parser.set_defaults(run=run_command)


def run_command(arguments: argparse.Namespace) -> int:
    """Print what was found; return the exit code."""
    checked = check_files(arguments.files, arguments)
    for finding in checked.findings:
        sys.stdout.write(f"{finding.severity.value}: {finding.text}\n")
    if checked.texts(Severity.ERROR):
        return EXIT_INVALID
    return EXIT_NO_EFFECT if checked.texts(Severity.NO_EFFECT) else 0
