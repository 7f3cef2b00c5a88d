"""Writes an archive so that the same files give the same bytes: all have one time, one owner and one of two modes."""

from __future__ import annotations

import gzip
import io
import shutil
import stat
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

_BUFFER_BYTES = 1 << 20
_FILE, _PROGRAM = 0o644, 0o755

Content = Path | bytes
"""A file, or what is in it."""


class ArchiveFormat(Enum):
    """torch-model-archiver's formats, by its names."""

    DEFAULT = "default"
    ZIP_STORE = "zip-store"
    TGZ = "tgz"
    NO_ARCHIVE = "no-archive"

    @property
    def ending(self) -> str:
        return {ArchiveFormat.TGZ: ".tar.gz", ArchiveFormat.NO_ARCHIVE: ""}.get(self, ".mar")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path for a draft, which becomes the file or folder at ``path`` when the block ends well."""
    with TemporaryDirectory(prefix=".packing-", dir=path.parent) as folder:
        draft = Path(folder, path.name)
        yield draft
        if path.is_dir() and not path.is_symlink():
            path.rename(Path(folder, "old"))
        draft.replace(path)


def write_archive(path: Path, files: Mapping[PurePosixPath, Content], form: ArchiveFormat, time: datetime) -> None:
    """Write the files in the order that they have; raise OSError."""
    match form:
        case ArchiveFormat.NO_ARCHIVE:
            _write_folder(path, files)
        case ArchiveFormat.TGZ:
            _write_tar(path, files, time)
        case ArchiveFormat.DEFAULT:
            _write_zip(path, files, ZIP_DEFLATED, time)
        case ArchiveFormat.ZIP_STORE:
            _write_zip(path, files, ZIP_STORED, time)


def _write_zip(path: Path, files: Mapping[PurePosixPath, Content], compression: int, time: datetime) -> None:
    with ZipFile(path, "x", compression) as archive:
        for name, content in files.items():
            info = ZipInfo(str(name), time.timetuple()[:6])
            info.create_system = 3  # Unix, wherever it is packed
            info.compress_type = compression
            info.external_attr = (stat.S_IFREG | _mode(content)) << 16
            with _open(content) as (stream, info.file_size), archive.open(info, "w") as entry:
                shutil.copyfileobj(stream, entry, _BUFFER_BYTES)


def _write_tar(path: Path, files: Mapping[PurePosixPath, Content], time: datetime) -> None:
    seconds = int(time.timestamp())
    with (
        path.open("xb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=seconds) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        top = path.name.removesuffix(ArchiveFormat.TGZ.ending)
        for name, content in files.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.mode, info.mtime = _mode(content), seconds
            with _open(content) as (stream, info.size):
                archive.addfile(info, stream)


def _write_folder(path: Path, files: Mapping[PurePosixPath, Content]) -> None:
    for name, content in files.items():
        place = path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        with _open(content) as (stream, _), place.open("xb") as file:
            shutil.copyfileobj(stream, file, _BUFFER_BYTES)
        place.chmod(_mode(content))


@contextmanager
def _open(content: Content) -> Iterator[tuple[IO[bytes], int]]:
    if isinstance(content, bytes):
        yield io.BytesIO(content), len(content)
    else:
        with content.open("rb") as stream:
            yield stream, content.stat().st_size


def _mode(content: Content) -> int:
    return _PROGRAM if isinstance(content, Path) and content.stat().st_mode & stat.S_IXUSR else _FILE
