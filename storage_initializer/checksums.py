"""Checksums that stores give, computed over a file. The file has just been written, so its pages are in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

from storage_initializer.backends import Checksum

_BUFFER_BYTES = 1 << 20
# What can be checked, the fastest first.
ALGORITHMS = ("crc32c", "crc32", "sha256", "sha1", "md5")


def checksum_of(path: Path, algorithm: str) -> Checksum:
    with path.open("rb", buffering=0) as stream:
        if algorithm == "crc32c":
            return Checksum(algorithm, f"{_crc32c(stream.read):08x}")
        if algorithm == "crc32":
            return Checksum(algorithm, f"{_crc32(stream.readinto):08x}")
        digest = hashlib.file_digest(stream, lambda: _new(algorithm))
    return Checksum(algorithm, digest.hexdigest())


def _new(algorithm: str) -> Any:
    """Against accidents; that MD5 and SHA-1 are weak does not matter, and FIPS need not forbid them."""
    return hashlib.new(algorithm, usedforsecurity=False)


def _crc32(readinto: Callable[[memoryview], int | None]) -> int:
    buffer, value = memoryview(bytearray(_BUFFER_BYTES)), 0
    while count := readinto(buffer):
        value = crc32(buffer[:count], value)
    return value


def _crc32c(read: Callable[[int], bytes]) -> int:
    import google_crc32c  # by the processor's own instruction; the standard library has none

    value = 0
    while chunk := read(_BUFFER_BYTES):
        value = google_crc32c.extend(value, chunk)
    return int(value)
