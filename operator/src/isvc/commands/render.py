"""``isvc render``: print the children that the operator would create, without a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from isvc.commands.exit_codes import EXIT_NO_EFFECT
from isvc.commands.files import FileFlags, file_flags, files_argument, usable
from isvc.commands.output import OutputFormat, write_data

if TYPE_CHECKING:
    from isvc_operator.manifests import Manifest


@click.command(short_help="print the objects that the operator would create")
@files_argument
@file_flags
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    help="documents for kubectl, or one List of them (default: yaml)",
)
def command(*, files: tuple[Path, ...], flags: FileFlags, output: str) -> int:
    """Print the objects that the operator would create for the services in FILE, without a cluster.

    FILE is YAML with services and what they are made from; a folder of such files, or - for the standard input.
    """
    import yaml

    from isvc.run.check import Severity
    from isvc.yaml_text import Dumper

    checked = usable(files, flags)
    children = [_without_owner(child) for rendered in checked.rendered for child in rendered.children]
    if output == "json":
        write_data({"apiVersion": "v1", "kind": "List", "items": children}, OutputFormat.JSON)
    else:
        yaml.dump_all(children, sys.stdout, Dumper=Dumper, explicit_start=True, sort_keys=False)
    return EXIT_NO_EFFECT if checked.texts(Severity.MISSING, Severity.NO_EFFECT) else 0


def _without_owner(child: Manifest) -> Manifest:
    """Remove the owner reference, whose uid only a cluster knows, so that ``kubectl apply`` accepts the object."""
    metadata = {name: value for name, value in child["metadata"].items() if name != "ownerReferences"}
    return {**child, "metadata": metadata}
