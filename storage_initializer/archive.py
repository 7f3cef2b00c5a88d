"""Whether TorchServe can load a model archive, and whether unpacking it is safe.

TorchServe takes a ``.mar`` for a zip, any other file for a ``.tar.gz`` with one top folder, and a folder for an
archive that is unpacked already. Of a zip only the headers and the manifest are read: an archive may be very large.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from storage_initializer.compression import Compression
from storage_initializer.contents import Contents, exact, shown
from storage_initializer.errors import ArchiveError
from storage_initializer.limits import MAX_MANIFEST
from storage_initializer.progress import format_size
from storage_initializer.tars import open_tar
from storage_initializer.zips import open_zip

# What TorchServe takes for an archive, beside folders.
ARCHIVES = (".mar", ".model", ".tar.gz")
MANIFEST = "MAR-INF/MANIFEST.json"
_RUNTIMES = ("python", "python3", "LSP")
_REQUIRED = ("modelName", "modelVersion", "handler")
_REPACK = "make it again with torch-model-archiver"


@dataclass(frozen=True)
class ArchivedModel:
    """What the manifest calls the model in an archive."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"model {self.name}, version {self.version}"


def check_archive(path: Path, name: str) -> ArchivedModel:
    """``name`` is how messages call it."""
    if path.is_dir():
        return _check_folder(path, name)
    contents = Contents(name, path.stat().st_size, _REPACK, exact)
    content = _check_zip(path, contents, name) if path.name.endswith(".mar") else _check_tar(path, contents, name)
    return _check_manifest(content, name)


def is_unpacked(folder: Path) -> bool:
    """Whether a folder is an unpacked archive, be it a broken one; there may be others in a store."""
    return folder.is_dir() and (_top(folder) / MANIFEST).parent.is_dir()


def _top(folder: Path) -> Path:
    """TorchServe looks into a lone folder, too: that is how some tools unpack an archive."""
    entries = list(folder.iterdir())
    is_lone = len(entries) == 1 and entries[0].is_dir() and entries[0].name != PurePosixPath(MANIFEST).parent.name
    return entries[0] if is_lone else folder


def _check_folder(path: Path, name: str) -> ArchivedModel:
    manifest = _top(path) / MANIFEST
    if not manifest.is_file():
        raise ArchiveError(f"{name} has no {MANIFEST}; {_REPACK}")
    with manifest.open("rb") as stream:
        return _check_manifest(_read_manifest(stream, name), name)


def _check_zip(path: Path, contents: Contents, name: str) -> bytes:
    with open_zip(path, contents) as (archive, files):
        if not (info := files.get(PurePosixPath(MANIFEST))):
            raise contents.refusal(f"has no {MANIFEST}")
        with archive.open(info) as manifest:
            return _read_manifest(manifest, name)


def _check_tar(path: Path, contents: Contents, name: str) -> bytes:
    """The whole file is read, once: the manifest is its last member."""
    manifest = None
    with open_tar(path, contents, Compression.GZIP) as archive:
        for member in archive:
            if member.isdir():
                contents.add_folder(member.name)
            elif not member.isfile():
                raise contents.refusal(f"holds a link or device, {shown(member.name)}")
            elif contents.add_file(member.name, member.size).parts[1:] == PurePosixPath(MANIFEST).parts:
                manifest = _read_manifest(archive.content(member), name)
    if manifest is None:
        raise contents.refusal(f"has no {MANIFEST} below its top folder")
    return manifest


def _read_manifest(stream: IO[bytes], name: str) -> bytes:
    content = stream.read(MAX_MANIFEST + 1)
    if len(content) > MAX_MANIFEST:
        raise ArchiveError(f"the {MANIFEST} of {name} is larger than {format_size(MAX_MANIFEST)}; {_REPACK}")
    return content


def _check_manifest(content: bytes, name: str) -> ArchivedModel:
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError):
        raise ArchiveError(f"the {MANIFEST} of {name} is not valid JSON; {_REPACK}") from None
    model = manifest.get("model") if isinstance(manifest, dict) else None
    if not isinstance(model, dict):
        raise ArchiveError(f"the {MANIFEST} of {name} has no model; {_REPACK}")
    if missing := [field for field in _REQUIRED if not isinstance(model.get(field), str) or not model[field]]:
        raise ArchiveError(f"the {MANIFEST} of {name} lacks model.{', model.'.join(missing)}; {_REPACK}")
    if manifest.get("runtime") not in _RUNTIMES:
        raise ArchiveError(
            f"the {MANIFEST} of {name} has the runtime {manifest.get('runtime')!r}; use {' or '.join(_RUNTIMES)}"
        )
    return ArchivedModel(model["modelName"], model["modelVersion"])
