"""``isvc new model|transformer NAME``: create a folder with a model or a transformer that works, to start from.

The only placeholder is the name, so ``str.replace`` is enough; a template engine would be a dependency of the command.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from isvc.commands.output import OutputFormat, output_flag, write_data
from isvc_operator.errors import InvalidSpec

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_SUFFIX = ".template"
_PLACEHOLDER = "{{name}}"
# The name of a service, of its image and of its folder.
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,51}[a-z0-9])?")


@click.group(short_help="create a project from a template")
def command() -> None:
    """Create a project from a template."""


_into = click.option(
    "--into",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="where to write NAME (default: here)",
)


@command.command(short_help="a model with its handler, tests and a service")
@click.argument("name", metavar="NAME")
@_into
@output_flag
def model(*, name: str, into: Path, output: OutputFormat) -> None:
    """Write a model with its handler, tests and a service into the folder NAME.

    NAME is the name of the folder, of the one in it that is served, of the model and of the service.
    """
    _create("model", name, into, output)


@command.command(short_help="a transformer with tests, an image and a service")
@click.argument("name", metavar="NAME")
@_into
@output_flag
def transformer(*, name: str, into: Path, output: OutputFormat) -> None:
    """Write a transformer with tests, an image and a service into the folder NAME.

    NAME is the name of the folder, the image and the service.
    """
    _create("transformer", name, into, output)


def _create(kind: str, name: str, into: Path, output: OutputFormat) -> None:
    """Raise InvalidSpec for a name that no service can have, and for a folder that is there."""
    if not _NAME.fullmatch(name):
        raise InvalidSpec(
            f"{name!r} cannot be a service's name: use at most 53 lower-case letters, digits and hyphens, a letter "
            "first and no hyphen last"
        )
    folder = into / name
    if folder.exists():
        raise InvalidSpec(f"{folder} exists already; choose another name, or another folder with --into")
    write(kind, name, folder)
    if output is OutputFormat.TEXT:
        sys.stdout.write(f"wrote {folder}: see {folder / 'README.md'}\n")
    else:
        files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        write_data({"name": name, "kind": kind, "folder": str(folder), "files": [*map(str, files)]}, output)


def write(kind: str, name: str, folder: Path) -> None:
    """Write every file of the template with the name in it."""
    from importlib import resources

    _fill(folder, resources.files("isvc.commands") / "templates" / kind, name)


def _fill(folder: Path, templates: Traversable, name: str) -> None:
    folder.mkdir(parents=True)
    for template in templates.iterdir():
        if template.is_dir():
            _fill(folder / name, template, name)  # what is served, by which isvc run and isvc pack name it
            continue
        text = template.read_text(encoding="utf-8").replace(_PLACEHOLDER, name)
        (folder / template.name.removesuffix(_SUFFIX)).write_text(text, encoding="utf-8")
