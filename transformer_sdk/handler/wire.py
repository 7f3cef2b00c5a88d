"""Frames one after the other, as a socket or an answer in chunks carries them: each behind its kind and its length."""

from __future__ import annotations

import enum
import struct

HEAD = struct.Struct("!BQ")


class Kind(enum.IntEnum):
    """What a frame is."""

    WHOLE = 0  # a batch, or the answer to one
    PIECE = 1  # of an answer that is not whole yet
    LAST_WORDS = 2  # of a process that ends


def framed(frame: bytes, kind: Kind = Kind.WHOLE) -> bytes:
    """The frame with its head."""
    return HEAD.pack(kind, len(frame)) + frame


class Unframer:
    """Finds the frames in what arrives, however it is cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Kind and content of each frame that `data` completes."""
        self._buffer += data
        found = []
        while len(self._buffer) >= HEAD.size:
            kind, length = HEAD.unpack_from(self._buffer)
            end = HEAD.size + length
            if len(self._buffer) < end:
                break
            found.append((kind, bytes(memoryview(self._buffer)[HEAD.size : end])))
            del self._buffer[:end]
        return found
