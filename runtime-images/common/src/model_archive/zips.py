"""A zip's entries, as its directory has them, each checked before the first is unpacked."""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from model_archive.contents import ArchiveFile, Contents, Member
from model_archive.limits import MAX_ZIP_DIRECTORY
from model_archive.text import quoted

_ENCRYPTED = 0x1
_UTF_8 = 0x800
_DAMAGE = (zlib.error, EOFError, NotImplementedError, UnicodeDecodeError, struct.error)


@contextmanager
def open_zip(file: ArchiveFile, contents: Contents) -> Iterator[Sequence[Member]]:
    """Open a zip and check all its entries; raise InvalidArchive, also for damage that is found in the block."""
    try:
        with file.open("rb") as stream, ZipFile(cast(IO[bytes], _BoundedReader(stream, contents))) as archive:
            yield [_member(archive, info, contents) for info in archive.infolist()]
    except BadZipFile as error:
        raise contents.damaged(_damage(file, contents.archive_size, error)) from error
    except _DAMAGE as error:
        raise contents.damaged(f"is damaged ({error})") from error


class _BoundedReader:
    """A file that is read in bounded pieces, whatever size the zip's directory claims to have."""

    def __init__(self, stream: IO[bytes], contents: Contents) -> None:
        self._stream = stream
        self._contents = contents
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable

    def read(self, size: int = -1, /) -> bytes:
        if size > MAX_ZIP_DIRECTORY:
            raise self._contents.hostile("has a directory that is too large")
        return self._stream.read(size)


def _member(archive: ZipFile, info: ZipInfo, contents: Contents) -> Member:
    name = _name(info)
    mode = info.external_attr >> 16
    if info.header_offset < 0:
        raise BadZipFile("an entry before its beginning")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise contents.refusal(f"holds a link or device, {quoted(name)}")
    if info.flag_bits & _ENCRYPTED or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise contents.unsupported(f"holds {quoted(name)} encrypted, or packed in another way than by deflate")
    if name.endswith(("/", "\\")):
        return Member(contents.add_folder(name))
    path = contents.add_file(name, info.file_size)
    return Member(path, info.file_size, partial(archive.open, info), bool(mode & 0o111))


def _name(info: ZipInfo) -> str:
    """Return an entry's name: UTF-8, as Java and `zip` on Linux have it, also where its flag for UTF-8 is not set."""
    name = info.orig_filename  # `filename` is a cleaned form that ends at the first NUL
    if info.flag_bits & _UTF_8:
        return name
    try:
        return name.encode("cp437").decode()
    except UnicodeDecodeError:
        return name


def _damage(file: ArchiveFile, size: int, error: BadZipFile) -> str:
    if size == 0:
        return "is empty (0 bytes)"
    with file.open("rb") as stream:
        starts_as_zip = stream.read(4) == b"PK\x03\x04"
    if not starts_as_zip:
        return f"is not a zip archive ({size} bytes)"
    if str(error) == "File is not a zip file":
        return f"is truncated: after {size} bytes the zip directory is missing"
    return f"is damaged ({error})"
