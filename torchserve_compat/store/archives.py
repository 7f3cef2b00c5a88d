"""The archives of a model store: what they hold and what their manifests say, or why they cannot be read."""

from __future__ import annotations

import gzip
import json
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Literal, cast

_OF_MANIFEST = "MAR-INF"
_MANIFEST = f"{_OF_MANIFEST}/MANIFEST.json"
# What TorchServe takes for an archive with load_models=all; only a .mar is a zip, the others are tar.gz.
_ENDINGS = (".mar", ".model", ".tar.gz")
# RuntimeError is zipfile's for encryption and unknown compression.
UNREADABLE = (OSError, zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RuntimeError)
_MAX_PIECE = 1 << 20

Kind = Literal["file", "folder", "special"]


@dataclass(frozen=True)
class Member:
    """What an archive holds; `open` serves while the archive is open."""

    name: str
    size: int
    kind: Kind
    open: Callable[[], IO[bytes]]


@dataclass(frozen=True)
class Archive:
    """One entry of the model store. `problem` is empty when TorchServe can load it."""

    file: str
    model_name: str
    problem: str = ""
    model_version: str = "1.0"
    handler: str = ""  # a file's name, or the name of one of TorchServe's own


def read_store(store: Path) -> Mapping[str, Archive]:
    """Every entry that TorchServe would take for a model, by file name."""
    return {path.name: read_archive(path) for path in sorted(store.iterdir()) if _is_model(path)}


def read_archive(path: Path) -> Archive:
    """What a file or folder says of itself; nothing is raised, what is wrong with it becomes its `problem`."""
    try:
        model = json.loads(read_file(path, _MANIFEST))["model"]
        version, handler = str(model.get("modelVersion", "1.0")), str(model.get("handler", ""))
        return Archive(path.name, model["modelName"], model_version=version, handler=handler)
    except UNREADABLE as error:
        return Archive(path.name, "", f"cannot be opened ({error}); is it truncated?")
    except (KeyError, TypeError, ValueError) as error:
        return Archive(path.name, "", f"has no usable {_MANIFEST} ({error}); make it with torch-model-archiver")


def _is_model(path: Path) -> bool:
    if path.name.startswith("."):
        return False
    if path.is_dir():  # a volume's root has folders of its own, and lost+found cannot even be looked into
        return os.path.isdir(_top(path) / _OF_MANIFEST)  # noqa: PTH112 - Path.is_dir raises where it may not look
    return path.name.endswith(_ENDINGS)


def _top(folder: Path) -> Path:
    """As TorchServe does, of an unpacked archive a lone folder is looked into."""
    try:
        entries = list(folder.iterdir())
    except OSError:  # it may not be looked into
        return folder
    is_lone = len(entries) == 1 and entries[0].name != _OF_MANIFEST and os.path.isdir(entries[0])  # noqa: PTH112
    return entries[0] if is_lone else folder


def read_file(archive: Path, file: str) -> bytes:
    """Of an archive or an unpacked one; a .tar.gz has its files below one folder. Raises KeyError."""
    if archive.is_dir():
        return (_top(archive) / file).read_bytes()
    if _is_zip(archive):
        with zipfile.ZipFile(archive) as zipped:
            return zipped.read(file)
    with open_archive(archive) as members:
        for member in members:
            if member.kind == "file" and member.name.endswith(f"/{file}"):
                with member.open() as content:
                    return content.read()
    raise KeyError("it is not there")


@contextmanager
def open_archive(path: Path) -> Iterator[Iterator[Member]]:
    """A .mar, or else a .tar.gz, whose members are to be read one after the other."""
    if _is_zip(path):
        with zipfile.ZipFile(path) as zipped:
            yield (_of_zip(zipped, info) for info in zipped.infolist())
    else:
        with _Unzipped(path) as stream, tarfile.open(fileobj=stream, mode="r:") as tarred:
            yield (_of_tar(tarred, info) for info in tarred)


class _Unzipped(gzip.GzipFile):
    """Not even a header of a tar, which tarfile reads in one piece, takes more memory than this."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > _MAX_PIECE:
            raise tarfile.ReadError("a header is too large")
        return super().read(size)


def _is_zip(path: Path) -> bool:
    return path.suffix == ".mar"


def _of_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    kind: Kind = "special" if stat.S_ISLNK(info.external_attr >> 16) else "folder" if info.is_dir() else "file"
    return Member(info.filename, info.file_size, kind, partial(archive.open, info))


def _of_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    kind: Kind = "file" if info.isreg() else "folder" if info.isdir() else "special"
    return Member(info.name, info.size, kind, lambda: cast(IO[bytes], archive.extractfile(info)))
