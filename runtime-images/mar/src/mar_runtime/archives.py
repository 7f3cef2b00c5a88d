"""Unpacks archives, trusting nothing in them: no path out of the folder, no links, no bombs."""

from __future__ import annotations

import json
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from transformer_sdk.model_store.errors import ModelFailed

MANIFEST = Path("MAR-INF") / "MANIFEST.json"

_MIB = 1024 * 1024
# Weights hardly compress; text does, up to about a hundredfold.
_MAX_RATIO = 200
_ALWAYS_ALLOWED_BYTES = 256 * _MIB


@dataclass(frozen=True)
class Unpacked:
    """A folder with an archive's files, and its manifest."""

    folder: Path
    manifest: dict[str, Any]

    @property
    def model(self) -> dict[str, Any]:
        """The manifest's part on the model."""
        model: dict[str, Any] = self.manifest["model"]
        return model


def unpack(archive: Path, folder: Path) -> Unpacked:
    """Unpack a .mar, a .tar.gz, or use a folder as it is; raises ModelFailed, which says what is wrong with it."""
    if archive.is_dir():
        return Unpacked(archive, _read_manifest(archive, archive.name))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        if zipfile.is_zipfile(archive):
            _unzip(archive, folder)
        else:
            _untar(archive, folder)
    except (OSError, zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
        raise ModelFailed(f"{archive.name} cannot be opened ({error}); is it truncated? Upload it again.") from error
    return Unpacked(_root(folder), _read_manifest(_root(folder), archive.name))


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as source:
        members = [member for member in source.infolist() if not member.is_dir()]
        budget = _budget(archive, sum(member.file_size for member in members))
        for member in members:
            if stat.S_ISLNK(member.external_attr >> 16):
                raise ModelFailed(f"{archive.name} holds a link, {member.filename}; pack the file itself.")
            with source.open(member) as content:
                budget = _write(content, _inside(folder, member.filename, archive.name), budget, archive.name)


def _untar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive, "r:*") as source:
        budget = max(_ALWAYS_ALLOWED_BYTES, archive.stat().st_size * _MAX_RATIO)
        for member in source:
            if member.isdir():
                continue
            content = source.extractfile(member) if member.isreg() else None
            if content is None:
                raise ModelFailed(f"{archive.name} holds {member.name}, which is no plain file; pack the file itself.")
            budget = _write(content, _inside(folder, member.name, archive.name), budget, archive.name)


def _budget(archive: Path, announced: int) -> int:
    """How many bytes may come out; raises ModelFailed where more are announced."""
    allowed = max(_ALWAYS_ALLOWED_BYTES, archive.stat().st_size * _MAX_RATIO)
    if announced > allowed:
        raise _bomb(archive.name)
    return allowed


def _inside(folder: Path, name: str, archive: str) -> Path:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        raise ModelFailed(f"{archive} holds {name!r}, a path that leads out of it; make it with torch-model-archiver.")
    return folder / path


def _write(content: IO[bytes], target: Path, budget: int, archive: str) -> int:
    """Writes one file; what is left of the budget."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        while chunk := content.read(_MIB):
            budget -= len(chunk)
            if budget < 0:
                raise _bomb(archive)
            file.write(chunk)
    return budget


def _bomb(archive: str) -> ModelFailed:
    return ModelFailed(
        f"{archive} unpacks to more than {_MAX_RATIO} times its size; that is no model. "
        "Make it with torch-model-archiver."
    )


def _root(folder: Path) -> Path:
    """A .tar.gz of torch-model-archiver has one folder at its top."""
    if (folder / MANIFEST).is_file():
        return folder
    return next(_only_folders(folder), folder)


def _only_folders(folder: Path) -> Iterator[Path]:
    entries = list(folder.iterdir())
    if len(entries) == 1 and entries[0].is_dir():
        yield entries[0]


def _read_manifest(folder: Path, archive: str) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        if not isinstance(manifest["model"]["handler"], str):
            raise TypeError("the handler is not text")
    except FileNotFoundError:
        raise ModelFailed(f"{archive} has no {MANIFEST}; make it with torch-model-archiver.") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFailed(
            f"{archive} has no usable {MANIFEST} ({error}); make it with torch-model-archiver."
        ) from error
    return manifest
