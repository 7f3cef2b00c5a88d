"""``isvc validate``: say what the API server and the operator would say of files, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isvc.commands.exit_codes import EXIT_INVALID, EXIT_NO_EFFECT
from isvc.commands.files import FileFlags, check_files, file_flags, files_argument
from isvc.commands.output import OutputFormat, output_flag, write_data, write_line

if TYPE_CHECKING:
    from isvc.run.check import CheckFinding


@click.command(short_help="check services and runtimes before they are applied")
@files_argument
@file_flags
@click.option("--no-services", is_flag=True, help="the files may have no service: runtimes or configuration alone")
@output_flag
def command(*, files: tuple[Path, ...], flags: FileFlags, no_services: bool, output: OutputFormat) -> int:
    """Say what the API server would refuse, what the operator could not serve, and what has no effect.

    FILE is YAML with services and what they are made from; a folder of such files, or - for the standard input.
    """
    from isvc.run.check import Severity

    checked = check_files(files, flags, needs_service=not no_services)
    if output is not OutputFormat.TEXT:
        write_data({"findings": [_as_data(finding) for finding in checked.findings]}, output)
    else:
        for finding in checked.findings:
            write_line(f"{finding.severity.value}:", finding.text)
        if not checked.findings:
            count = len(checked.rendered)
            write_line(f"ok: {count} {'service' if count == 1 else 'services'} can be served as written")
    if checked.texts(Severity.ERROR):
        return EXIT_INVALID
    return EXIT_NO_EFFECT if checked.texts(Severity.MISSING, Severity.NO_EFFECT) else 0


def _as_data(finding: CheckFinding) -> dict[str, Any]:
    """Return the finding as plain values; what is not known of its place is left out."""
    from isvc.view.json_shape import as_json

    return {"severity": finding.severity.value, "text": finding.text, **as_json(finding.place)}
