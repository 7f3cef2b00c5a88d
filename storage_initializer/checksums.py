"""Checksums that stores use: of content as it arrives, or of a complete file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from zlib import crc32

from storage_initializer.sources import Checksum

_BUFFER_BYTES = 1 << 20
_CRC32 = "crc32"
# Git's own: SHA-1 of a header with the size, and the content. The size follows the name.
_GIT_BLOB = "git-blob-"


class Sum:
    """The checksum of a stream of bytes: CRC-32, one of ``hashlib``'s, or Git's."""

    def __init__(self, algorithm: str) -> None:
        self._algorithm = algorithm
        self._crc = 0
        self._digest = None if algorithm == _CRC32 else _digest(algorithm)

    def add(self, chunk: memoryview) -> None:
        if self._digest:
            self._digest.update(chunk)
        else:
            self._crc = crc32(chunk, self._crc)

    def checksum(self) -> Checksum:
        return Checksum(self._algorithm, self._digest.hexdigest() if self._digest else f"{self._crc:08x}")


def git_blob(name: str, size: int) -> Checksum:
    """Return the checksum of a file of this size that Git stores under this name."""
    return Checksum(f"{_GIT_BLOB}{size}", name)


def checksum_of(path: Path, algorithm: str) -> Checksum:
    found, buffer = Sum(algorithm), memoryview(bytearray(_BUFFER_BYTES))
    with path.open("rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            found.add(buffer[:count])
    return found.checksum()


def _digest(algorithm: str) -> hashlib._Hash:
    # Against accidents; that MD5 and SHA-1 are weak does not matter, and FIPS need not forbid them.
    if not algorithm.startswith(_GIT_BLOB):
        return hashlib.new(algorithm, usedforsecurity=False)
    size = algorithm.removeprefix(_GIT_BLOB)
    return hashlib.new("sha1", f"blob {size}\0".encode(), usedforsecurity=False)
