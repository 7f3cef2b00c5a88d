"""How a tar is compressed, by its first bytes, and its decompressed content: in pieces, and in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import IO, TYPE_CHECKING, Literal, Protocol, cast

from model_archive.limits import MAX_XZ_MEMORY

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK = 64 << 10


class ArchiveFile(Protocol):
    """A file with an archive, wherever it is read from. A Path is one."""

    @property
    def name(self) -> str: ...

    def open(self, mode: Literal["rb"], /) -> IO[bytes]:
        """Open it for reading at any place."""


def size_of(file: ArchiveFile) -> int:
    """Return the number of its bytes."""
    with file.open("rb") as stream:
        return stream.seek(0, io.SEEK_END)


class Compression(Enum):
    """Each value is the first bytes of a stream of this format."""

    NONE = b""
    GZIP = b"\x1f\x8b"
    BZIP2 = b"BZh"
    XZ = b"\xfd7zXZ\0"


class DamagedError(Exception):
    """The compressed stream ends too early, or is in another format."""


def compression_of(path: ArchiveFile) -> Compression:
    """Return the format that a file's first bytes show."""
    with path.open("rb") as stream:
        start = stream.read(6)
    return next((each for each in Compression if each.value and start.startswith(each.value)), Compression.NONE)


@contextmanager
def open_decompressed(path: ArchiveFile, compression: Compression) -> Iterator[IO[bytes]]:
    """Open the content for reading from its beginning to its end; raises ``DamagedError``."""
    with path.open("rb") as stream:
        match compression:
            case Compression.NONE:
                yield stream
            case Compression.GZIP:
                with gzip.GzipFile(fileobj=stream) as opened:
                    yield cast(IO[bytes], opened)
            case Compression.BZIP2:
                yield cast(IO[bytes], io.BufferedReader(_Decompressed(stream, bz2.BZ2Decompressor)))
            case Compression.XZ:
                yield cast(IO[bytes], io.BufferedReader(_Decompressed(stream, _xz)))


class _Decompressed(io.RawIOBase):
    """Several compressed streams in a row: programs that compress on several processors write such files."""

    def __init__(self, stream: IO[bytes], make: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]) -> None:
        self._stream = stream
        self._make = make
        self._decompressor = make()
        self._pending = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        while not self._decompressor.eof or self._begin_next():
            if chunk := self._decompress(len(view)):
                view[: len(chunk)] = chunk
                return len(chunk)
        return 0

    def _decompress(self, size: int) -> bytes:
        data, self._pending = self._pending, b""
        if not data and self._decompressor.needs_input and not (data := self._stream.read(_CHUNK)):
            raise DamagedError("it ends too early")
        try:
            return self._decompressor.decompress(data, size)
        except (OSError, lzma.LZMAError) as error:
            raise DamagedError(str(error)) from None

    def _begin_next(self) -> bool:
        """Return whether there is another stream; zeros between them are padding."""
        rest = self._decompressor.unused_data.lstrip(b"\0")
        while not rest:
            if not (chunk := self._stream.read(_CHUNK)):
                return False
            rest = chunk.lstrip(b"\0")
        self._decompressor, self._pending = self._make(), rest
        return True


def _xz() -> lzma.LZMADecompressor:
    """A few bytes may ask for gigabytes of memory."""
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_XZ_MEMORY)
