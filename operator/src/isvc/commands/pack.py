"""``isvc pack``: make a model archive of a folder or of single files. The options are torch-model-archiver's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isvc.commands.files import PATH
from isvc.commands.output import OutputFormat, output_flag, write_data, write_line, write_table
from isvc.run.errors import UnusableInput

if TYPE_CHECKING:
    from datetime import datetime

    from model_archive.packing import Packed

_FORMATS = ("default", "zip-store", "tgz", "no-archive")
_EPOCH = "SOURCE_DATE_EPOCH"
_LAST_SECOND = 4354819199  # a zip's last year is 2107


@click.command(short_help="pack a model into an archive, the same bytes each time")
@click.argument("folder", type=PATH, required=False, metavar="[FOLDER]")
@click.option("--model-name", metavar="NAME", default="", help="name of the model and of its file (default: FOLDER's)")
@click.option("-v", "--version", metavar="VERSION", default="", help="version of the model (default: 1.0)")
@click.option(
    "--handler",
    metavar="FILE[:FUNCTION]",
    default="",
    help="handler's file, or one of TorchServe's own (default: handler.py, else base_handler)",
)
@click.option("--model-file", type=PATH, metavar="FILE", help="Python file with the network (default: model.py)")
@click.option("--serialized-file", type=PATH, metavar="FILE", help="weights (default: the .pt, .pth, .pt2 or .onnx)")
@click.option("--extra-files", metavar="FILE,...", default="", help="more files, folders and patterns, with commas")
@click.option(
    "-r", "--requirements-file", type=PATH, metavar="FILE", help="packages to install (default: requirements.txt)"
)
@click.option("-c", "--config-file", type=PATH, metavar="FILE", help="model's settings (default: model-config.yaml)")
@click.option("--runtime", type=click.Choice(["python", "python3", "LSP"]), help="default: python")
@click.option("--archive-format", type=click.Choice(_FORMATS), default="default", help="default: .mar, deflated")
@click.option("--export-path", type=PATH, default=Path(), metavar="DIR", help="folder for the archive (default: here)")
@click.option("-f", "--force", is_flag=True, help="overwrite the archive if it exists")
@output_flag
def command(
    *, folder: Path | None, export_path: Path, archive_format: str, force: bool, output: OutputFormat, **given: Any
) -> None:
    """Pack everything in FOLDER, or the files that the options name, into an archive as torch-model-archiver makes it.

    The same files give the same bytes. SOURCE_DATE_EPOCH sets the time in the archive, which is 1980 without it.
    """
    from model_archive.errors import CannotPack, InvalidArchive
    from model_archive.packing import ArchiveTarget, Sources, in_folder, pack
    from model_archive.writing import ArchiveFormat

    extra = tuple(filter(None, map(str.strip, given.pop("extra_files").split(","))))
    sources = Sources(extra_files=extra, **{name: value for name, value in given.items() if value})
    target = ArchiveTarget(export_path, ArchiveFormat(archive_format), force, _time(os.environ))
    try:
        packed = pack(in_folder(folder, sources) if folder else sources, target)
    except (CannotPack, InvalidArchive) as error:
        raise UnusableInput(str(error)) from error
    except OSError as error:
        raise UnusableInput(f"{error.filename or export_path}: {error.strerror}") from error
    for line in (*_without_function(packed), *_without_effect(packed)):
        sys.stderr.write(f"isvc: warning: {line}\n")
    _write(packed, output)


def _without_effect(packed: Packed) -> list[str]:
    """Return what the servers will say of the settings; nothing of those that are not YAML."""
    import yaml

    from isvc.commands.settings import without_effect
    from model_archive.archive import read_file
    from model_archive.limits import MAX_CHECKED

    file = packed.manifest.config_file
    content = read_file(packed.path, file, packed.path.name, limit=MAX_CHECKED) if file else None
    if not content or len(content) > MAX_CHECKED:
        return []
    try:
        settings = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
    return without_effect({}, {packed.path.name: settings}, is_folder=False) if isinstance(settings, dict) else []


def _without_function(packed: Packed) -> list[str]:
    """Return that a class is served in place of a function that the handler's file lacks: TorchServe says nothing."""
    import ast

    from model_archive.archive import read_file
    from model_archive.handlers import entry_of
    from model_archive.limits import MAX_CHECKED
    from model_archive.manifest import handler_file

    handler = packed.manifest.handler
    file, _, function = handler.partition(":")
    module = handler_file(handler) if function else None
    content = read_file(packed.path, module, packed.path.name, limit=MAX_CHECKED) if module else None
    if not content or len(content) > MAX_CHECKED:
        return []
    entry = entry_of(handler, ast.parse(content))
    if not entry.startswith("class "):
        return []
    return [f"{module} has no function {function}, so its {entry} is called; write --handler {file}"]


def _time(environment: Mapping[str, str]) -> datetime:
    from datetime import UTC, datetime

    from model_archive.packing import FIRST_TIME

    text = environment.get(_EPOCH, "")
    if not text:
        return FIRST_TIME
    if not text.isdecimal() or len(text) > len(str(_LAST_SECOND)) or int(text) > _LAST_SECOND:
        raise UnusableInput(f"{_EPOCH} is {text!r}; set it to a number of seconds since 1970, before the year 2108")
    return max(datetime.fromtimestamp(int(text), UTC), FIRST_TIME)


def _write(packed: Packed, output: OutputFormat) -> None:
    from model_archive.text import format_size

    path, manifest = packed.path, packed.manifest
    size = path.stat().st_size if path.is_file() else sum(packed.files.values())
    if output is not OutputFormat.TEXT:
        document = {
            "path": str(path),
            "bytes": size,
            "sha256": _sha256(path) if path.is_file() else None,
            "model": manifest.model_name,
            "version": manifest.model_version,
            "handler": manifest.handler,
            "files": [{"path": str(name), "bytes": count} for name, count in packed.files.items()],
            "leftOut": list(map(str, packed.left_out)),
        }
        write_data(document, output)
        return
    write_line(
        f"packed {path} ({format_size(size)}): model {manifest.model_name}, version {manifest.model_version}, "
        f"handler {manifest.handler}"
    )
    write_table(["FILE", "SIZE"], [[str(name), format_size(count)] for name, count in packed.files.items()])
    if packed.left_out:
        write_line(f"left out, hidden or made by tools: {', '.join(map(str, packed.left_out))}")


def _sha256(path: Path) -> str:
    from hashlib import file_digest

    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
