"""A zip's entries, each checked before the first is unpacked.

The directory at its end and the headers between its files have to agree, and to account for every byte: programs
differ in which of the two they unpack by.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from model_archive.compression import ArchiveFile, size_of
from model_archive.contents import Contents
from model_archive.limits import MAX_ZIP_DIRECTORY
from model_archive.text import quoted

# The lengths of the name and the extra field, which follow it.
_HEADER = struct.Struct("<26xHH")
_ENCRYPTED, _HAS_DESCRIPTOR = 0x1, 0x8
_MAX_DESCRIPTOR = 24
_DAMAGE = (zlib.error, EOFError, NotImplementedError, UnicodeDecodeError, struct.error)


@dataclass(frozen=True)
class OpenZip:
    """A zip whose entries have all been checked: its files and folders by their paths."""

    files: Mapping[PurePosixPath, ZipInfo]
    folders: Collection[PurePosixPath]
    _archive: ZipFile

    def open(self, info: ZipInfo) -> IO[bytes]:
        """Open a file's content."""
        return self._archive.open(info)


@contextmanager
def open_zip(path: ArchiveFile, contents: Contents) -> Iterator[OpenZip]:
    """Open a zip and check all its entries; raise InvalidArchive, also for damage that is found in the block."""
    try:
        with path.open("rb") as stream, ZipFile(cast(IO[bytes], file := _File(stream, contents))) as archive:
            opened = OpenZip(*_entries(archive, contents), archive)
            _check_extents(archive, file, contents)
            yield opened
    except BadZipFile as error:
        raise contents.damaged(_damage(path, error)) from error
    except _DAMAGE as error:
        raise contents.damaged(f"is damaged ({error})") from error


def is_executable(info: ZipInfo) -> bool:
    return bool(info.external_attr >> 16 & 0o111)


class _File:
    """A file that is read in bounded pieces, whatever size the zip's directory claims to have."""

    def __init__(self, stream: IO[bytes], contents: Contents) -> None:
        self._stream = stream
        self._contents = contents
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable

    def read(self, size: int = -1, /) -> bytes:
        if size > MAX_ZIP_DIRECTORY:
            raise self._contents.hostile("has a directory that is too large")
        return self._stream.read(size)


def _entries(archive: ZipFile, contents: Contents) -> tuple[Mapping[PurePosixPath, ZipInfo], Collection[PurePosixPath]]:
    files: dict[PurePosixPath, ZipInfo] = {}
    folders: set[PurePosixPath] = set()
    for info in archive.infolist():
        # `filename` is a cleaned form that ends at the first NUL.
        name = info.orig_filename
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise contents.refusal(f"holds a link or device, {quoted(name)}")
        if info.flag_bits & _ENCRYPTED or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise contents.unsupported(f"holds {quoted(name)} encrypted, or packed in another way than by deflate")
        if name.endswith(("/", "\\")):
            folders.add(contents.add_folder(name))
        else:
            files[contents.add_file(name, info.file_size)] = info
    return files, folders


def _check_extents(archive: ZipFile, file: _File, contents: Contents) -> None:
    end = slack = 0
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    for info in infos:
        _check_gap(info.header_offset - end, slack, contents)
        file.seek(info.header_offset)
        end = info.header_offset + _HEADER.size + sum(_HEADER.unpack(file.read(_HEADER.size))) + info.compress_size
        slack = _MAX_DESCRIPTOR if info.flag_bits & _HAS_DESCRIPTOR else 0
    _check_gap(archive.start_dir - end, slack, contents)
    for info in infos:
        with archive.open(info):  # compares the names in its two headers
            pass


def _check_gap(size: int, slack: int, contents: Contents) -> None:
    if size < 0:
        raise contents.hostile("has entries that overlap")
    if size > slack:
        raise contents.hostile(f"has {size} bytes between its entries that belong to none")


def _damage(path: ArchiveFile, error: BadZipFile) -> str:
    size = size_of(path)
    if size == 0:
        return "is empty (0 bytes)"
    with path.open("rb") as stream:
        starts_as_zip = stream.read(4) == b"PK\x03\x04"
    if not starts_as_zip:
        return f"is not a zip archive ({size} bytes)"
    if str(error) == "File is not a zip file":
        return f"is truncated: after {size} bytes the zip directory is missing"
    return f"is damaged ({error})"
