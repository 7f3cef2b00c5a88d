"""A picture to send, without an image library."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 32, height: int = 24) -> bytes:
    """Red grows to the right, green downwards."""
    rows = b"".join(
        b"\x00" + b"".join(bytes((255 * x // width, 255 * y // height, 128)) for x in range(width))
        for y in range(height)
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
