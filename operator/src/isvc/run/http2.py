"""What a server of HTTP/2 sends, so far as it takes to ask the client for another connection. Pure.

A frame GOAWAY that refuses no request does so (RFC 9113, 6.8): the client ends what it has begun here and asks further
requests elsewhere. It fits between two frames only.
"""

from __future__ import annotations

from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n"  # what a client sends first

_HEAD = 9  # bytes: the length in three, the type, the flags, and the stream in four
_LAST_STREAM = 2**31 - 1
_GOAWAY: Final = b"\x00\x00\x08\x07" + bytes(5) + _LAST_STREAM.to_bytes(4) + bytes(4)


class Answers:
    """The bytes from a server to its client. ``is_http2`` is to be set when the client has sent its first bytes."""

    def __init__(self) -> None:
        self.is_http2 = False
        self._is_leaving = False
        self._told = False
        self._begun = False
        self._head = b""
        self._left = 0  # bytes of the frame's payload

    def leave(self) -> bytes:
        """Ask the client to leave; return what to send now, or nothing inside of a frame: then it comes after it."""
        self._is_leaving = True
        return self._goaway()

    def passed_on(self, data: bytes) -> bytes:
        """Return what to send for what the server has sent."""
        if not self.is_http2 or self._told:
            return data
        sent, rest = b"", data
        while rest and not self._told:
            taken = self._left or _HEAD - len(self._head)
            part, rest = rest[:taken], rest[taken:]
            self._take(part)
            sent += part + self._goaway()
        return sent + rest

    def _take(self, part: bytes) -> None:
        if self._left:
            self._left -= len(part)
            return
        self._begun = True
        self._head += part
        if len(self._head) == _HEAD:
            self._left, self._head = int.from_bytes(self._head[:3]), b""

    def _goaway(self) -> bytes:
        is_between = self._begun and not self._head and not self._left
        if not self._is_leaving or self._told or not self.is_http2 or not is_between:
            return b""
        self._told = True
        return _GOAWAY
