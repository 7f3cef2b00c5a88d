"""Frames one after the other, as a socket or an answer in chunks carries them, each behind a head."""

from __future__ import annotations

import enum
import struct

# Kind, number and length. The number says which batch a frame is of, where there are several at a time.
HEAD = struct.Struct("!BIQ")


class Kind(enum.IntEnum):
    """What a frame is."""

    WHOLE = 0  # a batch, or the answer to one
    PIECE = 1  # of an answer that is not whole yet
    LAST_WORDS = 2  # of a process that ends
    LEAVE = 3  # nobody waits for the answer to a batch any more; without content


def framed(frame: bytes, kind: Kind = Kind.WHOLE, number: int = 0) -> bytes:
    """The frame with its head."""
    return HEAD.pack(kind, number, len(frame)) + frame


class Unframer:
    """Finds the frames in what arrives, however it is cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """Kind, number and content of each frame that `data` completes."""
        self._buffer += data
        found = []
        while len(self._buffer) >= HEAD.size:
            kind, number, length = HEAD.unpack_from(self._buffer)
            end = HEAD.size + length
            if len(self._buffer) < end:
                break
            found.append((kind, number, bytes(memoryview(self._buffer)[HEAD.size : end])))
            del self._buffer[:end]
        return found
