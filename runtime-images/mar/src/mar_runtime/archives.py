"""Unpacks archives, trusting nothing in them: no path out of the folder, no links, no bombs."""

from __future__ import annotations

import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from shutil import copyfileobj, rmtree
from typing import IO

import msgspec

from transformer_sdk.model_store.errors import ModelFailed

MANIFEST = Path("MAR-INF") / "MANIFEST.json"

_MIB = 1024 * 1024
# Weights hardly compress; text does, up to about a hundredfold.
_MAX_RATIO = 200
_ALWAYS_ALLOWED_BYTES = 256 * _MIB
_MAX_FILES = 100_000
_UNREADABLE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError, RuntimeError)
_MAKE = "Make it with torch-model-archiver"


class ModelManifest(msgspec.Struct, frozen=True, rename="camel"):
    """What MAR-INF/MANIFEST.json says of the model, as far as it is used here."""

    handler: str
    requirements_file: str | None = None
    config_file: str | None = None


class _Manifest(msgspec.Struct):
    model: ModelManifest


@dataclass(frozen=True)
class Unpacked:
    """A folder with an archive's files, and its manifest."""

    folder: Path
    manifest: ModelManifest


def unpack(archive: Path, folder: Path) -> Unpacked:
    """Unpack a .mar, a .tar.gz, or use a folder as it is; raises ModelFailed, which says what is wrong with it."""
    if archive.is_dir():
        return Unpacked(archive, _read_manifest(archive, archive.name))
    try:
        rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        target = _Target(archive, folder)
        if zipfile.is_zipfile(archive):
            _unzip(archive, target)
        else:
            _untar(archive, target)
    except OSError as error:
        if error.errno is None:  # gzip's
            raise _unreadable(archive, error) from error
        raise ModelFailed(f"{archive.name} cannot be unpacked into {folder} (--work-dir): {error}.") from error
    except _UNREADABLE as error:
        raise _unreadable(archive, error) from error
    root = _root(folder)
    return Unpacked(root, _read_manifest(root, archive.name))


class _Target:
    """The folder that files are written to, and how much more may be."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self._archive = archive.name
        self._folder = folder
        self._files = _MAX_FILES
        self._bytes = max(_ALWAYS_ALLOWED_BYTES, archive.stat().st_size * _MAX_RATIO)

    def write(self, name: str, size: int, content: IO[bytes]) -> None:
        """One file, which `content` gives no more than `size` bytes for; raises ModelFailed."""
        path = self._inside(name)
        self.count(size)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            copyfileobj(content, file, _MIB)

    def count(self, size: int) -> None:
        """Raises ModelFailed for more than there may be."""
        self._files -= 1
        self._bytes -= size
        if self._files < 0:
            raise ModelFailed(f"{self._archive} holds more than {_MAX_FILES} files; that is no model. {_MAKE}.")
        if self._bytes < 0:
            raise ModelFailed(
                f"{self._archive} unpacks to more than {_MAX_RATIO} times its size; that is no model. {_MAKE}."
            )

    def refusal(self, name: str) -> ModelFailed:
        """Of what is neither file nor folder."""
        return ModelFailed(f"{self._archive} holds {name!r}, which is no plain file; pack the file itself.")

    def _inside(self, name: str) -> Path:
        path = PurePosixPath(name.replace("\\", "/"))
        if not path.parts or path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
            raise ModelFailed(f"{self._archive} holds {name!r}, a path that leads out of it. {_MAKE}.")
        return self._folder / path


def _unzip(archive: Path, target: _Target) -> None:
    with zipfile.ZipFile(archive) as source:
        for member in source.infolist():
            if member.is_dir():
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                raise target.refusal(member.filename)
            with source.open(member) as content:
                target.write(member.filename, member.file_size, content)


def _untar(archive: Path, target: _Target) -> None:
    with tarfile.open(archive, "r:*") as source:
        for member in source:
            if member.isdir():
                target.count(0)
                continue
            content = source.extractfile(member) if member.isreg() else None
            if content is None:
                raise target.refusal(member.name)
            target.write(member.name, member.size, content)


def _unreadable(archive: Path, error: Exception) -> ModelFailed:
    return ModelFailed(f"{archive.name} cannot be opened ({error}); is it truncated? Upload it again.")


def _root(folder: Path) -> Path:
    """A .tar.gz of torch-model-archiver has one folder at its top."""
    if (folder / MANIFEST).is_file():
        return folder
    return next(_only_folders(folder), folder)


def _only_folders(folder: Path) -> Iterator[Path]:
    entries = list(folder.iterdir())
    if len(entries) == 1 and entries[0].is_dir():
        yield entries[0]


def _read_manifest(folder: Path, archive: str) -> ModelManifest:
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=_Manifest).model
    except OSError as error:
        raise ModelFailed(f"{archive} has no {MANIFEST} ({error.strerror}). {_MAKE}.") from error
    except (ValueError, RecursionError) as error:
        raise ModelFailed(f"{archive} has no usable {MANIFEST} ({error}). {_MAKE}.") from error
