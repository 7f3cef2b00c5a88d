"""A client on a bare socket: it sends what a test says, byte for byte."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass
class Visitor:
    """A connection that sends what a test says and reads answers."""

    connection: socket.socket
    unread: bytes = b""

    def __enter__(self) -> Visitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def send(self, *segments: bytes) -> Visitor:
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for segment in segments:
            self.connection.sendall(segment)
        return self

    def line(self) -> bytes:
        """Up to an empty line; nothing at the connection's end."""
        while b"\r\n\r\n" not in self.unread:
            if not (more := self.connection.recv(65536)):
                return b""
            self.unread += more
        head, _, self.unread = self.unread.partition(b"\r\n\r\n")
        return head

    def answer(self) -> tuple[int, dict[str, str], Any]:
        """The next one: status, headers, document."""
        status, _, lines = self.line().decode("latin-1").partition("\r\n")
        headers = dict(line.split(": ", 1) for line in lines.split("\r\n"))
        while len(self.unread) < int(headers["content-length"]):
            self.unread += self.connection.recv(65536)
        length = int(headers["content-length"])
        body, self.unread = self.unread[:length], self.unread[length:]
        return int(status.split(" ")[1]), headers, orjson.loads(body)

    def echoed(self) -> Any:
        """The document of the next answer, which is a good one."""
        status, _, document = self.answer()
        assert status == 200
        return document

    def is_closed(self) -> bool:
        return self.unread == b"" and self.connection.recv(1) == b""

    def was_reset(self) -> bool:
        """The server gave the connection up, and what was sent over it."""
        try:
            return self.connection.recv(1) == b""
        except ConnectionResetError:
            return True
