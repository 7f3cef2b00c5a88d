"""A stream of frames, as a socket or a chunked response carries it: each frame follows a fixed-size header."""

from __future__ import annotations

import enum
import struct

from torchserve_compat import frames

# Kind, number and length. The number identifies the batch of a frame, where several are in flight.
HEAD = struct.Struct("!BIQ")


class Kind(enum.IntEnum):
    WHOLE = 0  # a batch, or its result
    PIECE = 1  # a part of a response, sent before the result
    EXIT_MESSAGE = 2  # why the process ends
    LEAVE = 3  # the client of a request is gone; without content
    LAST = 4  # why the worker reads no more frames; results of those that it has read may follow


def framed(frame: bytes, kind: Kind = Kind.WHOLE, number: int = 0) -> bytes:
    return HEAD.pack(kind, number, len(frame)) + frame


def framed_output(output: frames.Piece | frames.HandlerResult, number: int = 0) -> bytes:
    return framed(frames.encode(output), Kind.PIECE if isinstance(output, frames.Piece) else Kind.WHOLE, number)


class Unframer:
    """Splits received bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """Return kind, number and content of each frame that `data` completes."""
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
