"""One keep-alive connection with one request at a time. It tells its user of every response, and of its end."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

import httptools

_BUFFER_BYTES = 64 << 10


class User(Protocol):
    """Who sends requests on connections."""

    def responded(self, connection: Connection, status: int) -> None:
        """Take a whole response. The connection is free, unless the server closes it."""

    def lost(self, connection: Connection, reason: str) -> None:
        """Take the end of a connection; it had a request under way if it is busy."""


class Connection(asyncio.BufferedProtocol):
    """``due`` and ``sent`` are the times of the request under way, for its user; ``reason`` is why it ends."""

    due = 0.0
    sent = 0.0
    received = 0
    is_busy = False
    is_open = False

    def __init__(self, user: User, *, is_head: bool = False) -> None:
        self._user = user
        self._is_head = is_head
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self.reason = "the server closed the connection"

    def send(self, message: bytes) -> None:
        """Send a request; the connection must be open and free."""
        self.is_busy = True
        self._transport.write(message)

    def abort(self, reason: str) -> None:
        """End it at once; ``reason`` is what its user hears."""
        self.is_open = False
        self.reason = reason
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpResponseParser(self)
        self.is_open = True

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's name
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += nbytes
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except httptools.HttpParserError as error:
            self.abort(f"the response is not HTTP ({error})")

    def on_headers_complete(self) -> None:
        """Called by the parser, which cannot know that the response to HEAD ends here."""
        if self._is_head:
            self._complete()
            self._parser = httptools.HttpResponseParser(self)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        if not self._is_head:
            self._complete()

    def _complete(self) -> None:
        if not self.is_busy:
            raise httptools.HttpParserError("there is more than was asked for")
        self.is_busy = False
        if not self._parser.should_keep_alive():
            self.is_open = False
            self._transport.close()
        self._user.responded(self, self._parser.get_status_code())

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._user.lost(self, f"{self.reason} ({exc})" if exc else self.reason)
