"""A client of gRPC on a bare socket: frames of HTTP/2 and fields of HPACK, byte for byte."""

from __future__ import annotations

import socket
from collections.abc import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 7, 8, 9
END_STREAM = ACK = 1
END_HEADERS = 4
_MAX_FRAME = 16384  # bytes of a payload
REFERENCE = b"\xbe"  # one byte for the field that a connection has sent last by `indexed`


class GrpcVisitor:
    """A connection that sends a call in each stream; `acknowledges` the server's settings, as a client should."""

    def __init__(self, port: int, *, acknowledges: bool) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._unread = b""
        self._stream = -1
        self._connection.sendall(PREFACE + frame(SETTINGS, 0, 0))
        next(kind for kind, *_ in self.frames() if kind == SETTINGS)
        if acknowledges:
            self._connection.sendall(frame(SETTINGS, ACK, 0))

    def __enter__(self) -> GrpcVisitor:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def call(self, path: bytes, more: bytes, message: bytes | None = None) -> None:
        """Begin a call of a method with `more` fields; with a message, it is complete."""
        self._stream += 2
        self._connection.sendall(call(self._stream, path, more, message))

    def frames(self) -> Iterator[tuple[int, int, bytes]]:
        """Each frame that comes: its type, its stream and its payload."""
        while True:
            while len(self._unread) < 9 or len(self._unread) < 9 + int.from_bytes(self._unread[:3], "big"):
                if not (more := self._connection.recv(65536)):
                    return
                self._unread += more
            end = 9 + int.from_bytes(self._unread[:3], "big")
            head, payload, self._unread = self._unread[:9], self._unread[9:end], self._unread[end:]
            yield head[3], int.from_bytes(head[5:], "big"), payload


def call(stream: int, path: bytes, more: bytes, message: bytes | None) -> bytes:
    """The frames of a call of a method with `more` fields; with a message, it is complete."""
    # POST and http of the static table; then :path, content-type and te, which are not indexed.
    fields = b"\x83\x86" + b"\x01" + text(b"x") + b"\x04" + text(path)
    fields += b"\x0f\x10" + text(b"application/grpc") + b"\x00" + text(b"te") + text(b"trailers") + more
    frames, kind = b"", HEADERS
    while len(fields) > _MAX_FRAME:
        frames += frame(kind, 0, stream, fields[:_MAX_FRAME])
        fields, kind = fields[_MAX_FRAME:], CONTINUATION
    frames += frame(kind, END_HEADERS, stream, fields)
    if message is None:
        return frames
    return frames + frame(DATA, END_STREAM, stream, b"\0" + len(message).to_bytes(4, "big") + message)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def indexed(name: bytes, value: bytes) -> bytes:
    """A field that enters the table of the connection; `REFERENCE` stands for it from then on."""
    return b"\x40" + text(name) + text(value)


def text(value: bytes) -> bytes:
    """A text of HPACK, as it is."""
    length, prefix = len(value), 127
    if length < prefix:
        return bytes((length,)) + value
    rest, more = length - prefix, []
    while rest >= 128:
        more.append(rest % 128 + 128)
        rest //= 128
    return bytes((prefix, *more, rest)) + value
