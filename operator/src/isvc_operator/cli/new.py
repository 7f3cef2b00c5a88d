"""``isvc new transformer NAME``: a folder to start from, in which everything runs."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from isvc_operator.errors import InvalidSpec

_SUFFIX = ".template"
_PLACEHOLDER = "{{name}}"
# The name of a service, of its image and of its folder.
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,51}[a-z0-9])?")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser], env: Mapping[str, str]) -> None:  # noqa: ARG001
    """Add the command."""
    parser = commands.add_parser("new", help="write a folder to start from")
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    transformer = kinds.add_parser("transformer", help="a transformer with its tests, image and service")
    transformer.add_argument("name", metavar="NAME", help="of the folder, the image and the service")
    transformer.add_argument(
        "--into", type=Path, default=Path(), metavar="DIR", help="where to write NAME (default: here)"
    )
    transformer.set_defaults(run=run_command)


def run_command(arguments: argparse.Namespace) -> None:
    """Write the folder; raises InvalidSpec for a name that no service can have, and a folder that is there."""
    name: str = arguments.name
    if not _NAME.fullmatch(name):
        raise InvalidSpec(f"{name!r} cannot be a service's name: lower case letters, digits and hyphens, at most 53")
    folder: Path = arguments.into / name
    if folder.exists():
        raise InvalidSpec(f"{folder} is there already; choose another name, or --into another folder")
    write(arguments.kind, name, folder)
    sys.stdout.write(f"wrote {folder}: see {folder / 'README.md'}\n")


def write(kind: str, name: str, folder: Path) -> None:
    """Every file of the template with the name in it."""
    folder.mkdir(parents=True)
    for template in (resources.files("isvc_operator.cli") / "templates" / kind).iterdir():
        text = template.read_text(encoding="utf-8").replace(_PLACEHOLDER, name)
        (folder / template.name.removesuffix(_SUFFIX)).write_text(text, encoding="utf-8")
