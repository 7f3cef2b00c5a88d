"""A tar's members, compressed or not, one after the other: it has no directory, so each is checked as it is read.

``tarfile`` reads headers of any size into memory, takes a damaged header for the end, and does not read the checksum of
gzip, which comes after the end. Of a member only its name, its kind and its content are used, and no link is made: the
data filter of ``tarfile`` is for those who let it write.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple, cast

from model_archive.contents import ArchiveFile, Contents, Member
from model_archive.limits import MAX_TAR_HEADER, MAX_XZ_MEMORY
from model_archive.text import quoted

_CHUNK = 64 << 10
# ValueError is for numbers that are none, RecursionError for headers of headers.
_DAMAGE = (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, RecursionError)


class _Format(NamedTuple):
    name: str
    open: Callable[[IO[bytes]], AbstractContextManager[Any]]


def _open_xz(stream: IO[bytes]) -> lzma.LZMAFile:
    """Refuse what asks for gigabytes of memory, which takes a few bytes."""
    lzma.LZMADecompressor(memlimit=MAX_XZ_MEMORY).decompress(stream.read(_CHUNK), 1)
    stream.seek(0)
    return lzma.open(stream)


_PLAIN, _GZIP = _Format("tar", lambda stream: stream), _Format("tar.gz", gzip.open)
_BY_FIRST_BYTES = {
    b"\x1f\x8b": _GZIP,
    b"BZh": _Format("tar.bz2", bz2.open),
    b"\xfd7zXZ\0": _Format("tar.xz", _open_xz),
}


@contextmanager
def open_tar(file: ArchiveFile, contents: Contents, *, is_model: bool) -> Iterator[Iterator[Member]]:
    """Open a tar, whose members' contents are read one after the other; raise InvalidArchive, also in the block.

    A model is read as TorchServe does: by gzip alone, without the first folder of each name, and without links.
    """
    with file.open("rb") as stream:
        form = _GZIP if is_model else _format_of(stream)
        try:
            with form.open(stream) as content:
                yield _members(_ForwardReader(content, contents), contents, is_model)
        except _DAMAGE as error:
            if isinstance(error, OSError) and error.errno is not None:  # none of bz2's and gzip's own
                raise
            raise contents.damaged(
                f"is truncated or not a {form.name} ({contents.archive_size} bytes: {error})"
            ) from error


def _format_of(stream: IO[bytes]) -> _Format:
    start = stream.read(6)
    stream.seek(0)
    return next((form for mark, form in _BY_FIRST_BYTES.items() if start.startswith(mark)), _PLAIN)


class _ForwardReader:
    """A tar's bytes in their order; how many are read before the next member, and in all, is limited."""

    def __init__(self, stream: IO[bytes], contents: Contents) -> None:
        self._stream = stream
        self._contents = contents
        self.tell = stream.tell
        self.allowed = MAX_TAR_HEADER
        self.last = b""

    def seek(self, position: int) -> None:
        if position < self.tell():
            raise tarfile.ReadError("a header that points back")
        self._contents.check_size(position)
        self._stream.seek(position)

    def read(self, size: int) -> bytes:
        self.allowed -= size
        if self.allowed < -1:  # tarfile looks at the byte before each header
            raise self._contents.hostile("has a header that is too large")
        self.last = self._stream.read(size)
        self._contents.check_size(self.tell())
        return self.last

    def drain(self) -> None:
        while self._stream.read(_CHUNK):
            self._contents.check_size(self.tell())


def _members(reader: _ForwardReader, contents: Contents, is_model: bool) -> Iterator[Member]:
    archive = tarfile.TarFile(fileobj=cast(IO[bytes], reader))
    while info := archive.next():
        if info.issparse():
            raise contents.refusal(f"holds {info.name!r} with holes")
        if info.size < 0:
            raise tarfile.ReadError("a negative size")
        reader.allowed = info.size
        yield _member_of_model(archive, info, contents) if is_model else _member(archive, info, contents)
        reader.allowed = MAX_TAR_HEADER
        # tarfile keeps them all for as long as it is open.
        archive.members.clear()  # type: ignore[attr-defined]
        cast(dict[str, str], archive.pax_headers).clear()
    if reader.last != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("no end mark")
    reader.drain()


def _member_of_model(archive: tarfile.TarFile, info: tarfile.TarInfo, contents: Contents) -> Member:
    contents.path(info.name)
    if not (info.isdir() or info.isfile()):
        raise contents.refusal(f"holds a link or device, {quoted(info.name)}")
    below = info.name.partition("/")[2].lstrip("/")
    info.name = below or ("." if info.isdir() else info.name)
    return _member(archive, info, contents)


def _member(archive: tarfile.TarFile, info: tarfile.TarInfo, contents: Contents) -> Member:
    if info.isdir():
        return Member(contents.add_folder(info.name))
    if info.isfile():
        content = partial(cast("Callable[..., IO[bytes]]", archive.extractfile), info)
        return Member(contents.add_file(info.name, info.size), info.size, content, bool(info.mode & 0o111))
    if info.issym() or info.islnk():
        path = contents.add_file(info.name, 0)
        base = path.parent if info.issym() else PurePosixPath()
        destination = PurePosixPath(posixpath.normpath(base / info.linkname))
        if destination.is_absolute() or destination.parts[:1] == ("..",):
            raise contents.hostile(f"holds a link out of its folder, {quoted(info.name)}")
        return Member(path, link=destination)
    raise contents.refusal(f"holds a device, {quoted(info.name)}")
