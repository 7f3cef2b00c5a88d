"""``isvc new transformer NAME``: create a folder with a transformer that works, as a starting point.

The only placeholder is the name, so ``str.replace`` is enough; a template engine would be a dependency of the command.
"""

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
    parser = commands.add_parser("new", help="create a project from a template")
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    transformer = kinds.add_parser("transformer", help="a transformer with tests, an image and a service")
    transformer.add_argument("name", metavar="NAME", help="name of the folder, the image and the service")
    transformer.add_argument(
        "--into", type=Path, default=Path(), metavar="DIR", help="where to write NAME (default: here)"
    )
    transformer.set_defaults(run=run_command)


def run_command(arguments: argparse.Namespace) -> None:
    """Create the folder; raises InvalidSpec for an invalid name, and for a folder that exists."""
    name: str = arguments.name
    if not _NAME.fullmatch(name):
        raise InvalidSpec(f"{name!r} cannot be a service's name: use at most 53 lower-case letters, digits and hyphens")
    folder: Path = arguments.into / name
    if folder.exists():
        raise InvalidSpec(f"{folder} exists already; choose another name, or another folder with --into")
    write(arguments.kind, name, folder)
    sys.stdout.write(f"wrote {folder}: see {folder / 'README.md'}\n")


def write(kind: str, name: str, folder: Path) -> None:
    """Write every file of the template with the name in it."""
    folder.mkdir(parents=True)
    for template in (resources.files("isvc_operator.cli") / "templates" / kind).iterdir():
        text = template.read_text(encoding="utf-8").replace(_PLACEHOLDER, name)
        (folder / template.name.removesuffix(_SUFFIX)).write_text(text, encoding="utf-8")
