"""A tar's members, compressed or not, one after the other: it has no directory, so each is checked as it is read.

``tarfile`` reads headers of any size into memory, takes a damaged header for the end, and does not read the checksum of
gzip, which comes after the end. None of that is left to it.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

from model_archive.compression import ArchiveFile, Compression, DamagedError, open_decompressed, size_of
from model_archive.contents import Contents
from model_archive.limits import MAX_TAR_HEADER

_CHUNK = 64 << 10
_SUFFIXES = {Compression.NONE: "", Compression.GZIP: ".gz", Compression.BZIP2: ".bz2", Compression.XZ: ".xz"}
_END = bytes(tarfile.BLOCKSIZE)
# ValueError is for numbers that are none, RecursionError for headers of headers.
_DAMAGE = (tarfile.TarError, DamagedError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, RecursionError)


class OpenTar:
    """An open tar. Each member's content is read before the next member."""

    def __init__(self, stream: IO[bytes], contents: Contents) -> None:
        self._reader = _ForwardReader(stream, contents)
        self._archive = tarfile.TarFile(fileobj=cast(IO[bytes], self._reader))
        self._contents = contents

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        while member := self._next():
            if member.issparse():
                raise self._contents.refusal(f"holds {member.name!r} with holes")
            if member.size < 0:
                raise tarfile.ReadError("a negative size")
            self._reader.allow(member.size)
            yield member
        if not self._reader.is_at_end_mark:
            raise tarfile.ReadError("no end mark")
        self._reader.drain()

    def content(self, member: tarfile.TarInfo) -> IO[bytes]:
        return cast(IO[bytes], self._archive.extractfile(member))

    def _next(self) -> tarfile.TarInfo | None:
        self._reader.allow(MAX_TAR_HEADER)
        member = self._archive.next()
        # tarfile keeps them all for as long as it is open.
        self._archive.members.clear()  # type: ignore[attr-defined]
        cast(dict[str, str], self._archive.pax_headers).clear()
        return member


@contextmanager
def open_tar(path: ArchiveFile, contents: Contents, compression: Compression) -> Iterator[OpenTar]:
    """Open a tar; raise InvalidArchive, also for what is found in the block."""
    try:
        with open_decompressed(path, compression) as stream:
            yield OpenTar(stream, contents)
    except _DAMAGE as error:
        kind = f"tar{_SUFFIXES[compression]}"
        raise contents.damaged(f"is truncated or not a {kind} ({size_of(path)} bytes: {error})") from error


class _ForwardReader:
    """A tar's bytes in their order, without a way back; how many at once and in all is limited."""

    def __init__(self, stream: IO[bytes], contents: Contents) -> None:
        self._stream = stream
        self._contents = contents
        self._position = 0
        self._last = b""
        self.allow(MAX_TAR_HEADER)

    @property
    def is_at_end_mark(self) -> bool:
        return self._last == _END

    def allow(self, size: int) -> None:
        """Allow this many bytes to be read until the next call; skipped bytes do not count."""
        self._allowed = size

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> None:
        if position < self._position:
            raise tarfile.ReadError("a header that points back")
        while self._position < position and self._read(min(_CHUNK, position - self._position)):
            pass

    def read(self, size: int) -> bytes:
        self._allowed -= size
        if self._allowed < -1:  # tarfile looks at the byte before each header
            raise self._contents.hostile("has a header that is too large")
        return self._read(size)

    def drain(self) -> None:
        while self._read(_CHUNK):
            pass

    def _read(self, size: int) -> bytes:
        self._last = self._stream.read(size)
        self._position += len(self._last)
        if self._position > self._contents.limit:
            raise self._contents.bomb(self._position)
        return self._last
