"""One HTTP/1.1 connection to a predictor: one request at a time; responses are whole or, on demand, streamed.

A request with one of Python's HTTP clients costs more than the rest of a transformer (docs/decisions/0014). The parser
is the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import httptools

from data_plane import limits
from data_plane.client.pieces import Pieces
from data_plane.messages import Headers, header

# A server that closes an idle connection while a request is on the way resets the connection when the request arrives.
# A busy server does so late; after more than this time, the server may have read the request before the reset.
_CROSSING_S = 1.0


@dataclass(frozen=True, slots=True)
class UpstreamResponse:
    """A response of any status. A streamed response has `pieces` and an empty body."""

    status: int
    headers: Headers  # names in lower case
    body: bytes
    pieces: Pieces | None = None

    def header(self, name: bytes) -> bytes | None:
        """Return the value of a header; `name` is in lower case."""
        return header(self.headers, name)


class Broken(Exception):
    """The connection failed without a response; with `unread`, most likely before the server read the request."""

    def __init__(self, reason: str, *, unread: bool = False) -> None:
        super().__init__(reason)
        self.unread = unread


class TimedOut(Exception):
    """The whole response did not arrive in time."""


class UpstreamConnection(asyncio.Protocol):
    """A protocol for `loop.create_connection`; calls back when it is lost and when a streamed response is complete."""

    def __init__(
        self,
        on_lost: Callable[[UpstreamConnection], None],
        on_free: Callable[[UpstreamConnection], None],
        max_response: int,
    ) -> None:
        self._on_lost = on_lost
        self._on_free = on_free
        self._max_response = max_response
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[UpstreamResponse] | None = None
        self._offered: Pieces | None = None  # accepts a streamed response
        self._pieces: Pieces | None = None  # of the streamed response in progress
        self._headers: list[tuple[bytes, bytes]] = []
        self._chunks: list[bytes] = []
        self._sized = False
        self.opened_at = self.idle_since = self._loop.time()
        self._requested_at = self.opened_at
        self._kept = False  # has served a request before
        self._read_head = 0  # bytes, including interim responses such as "100 Continue"
        self._lost = False
        self._begin()

    @property
    def usable(self) -> bool:
        """Whether another request can be sent."""
        return not self._lost and not self._transport.is_closing()

    async def request(self, message: bytes, timeout_s: float, pieces: Pieces | None = None) -> UpstreamResponse:
        """Send a whole request and wait for its whole response; raises Broken and TimedOut.

        Takes one request at a time. With `pieces`, a successful response of events or of unknown length is streamed.
        """
        if not self.usable:  # closed while it was idle
            raise Broken("it closed the connection without a response", unread=True)
        self._begin()
        waiter: asyncio.Future[UpstreamResponse] = self._loop.create_future()
        self._waiter, self._offered = waiter, pieces
        self._requested_at = self._loop.time()
        self._read_head = 0
        self._transport.write(message)
        timer = self._loop.call_later(timeout_s, self._fail, TimedOut())
        try:
            return await waiter
        except asyncio.CancelledError:
            self.close()  # or the late response would be read as the next request's
            raise
        finally:
            timer.cancel()
            self._waiter = self._offered = None
            self.idle_since = self._loop.time()
            self._kept = True

    def close(self) -> None:
        """Close the connection at once; a response in progress is lost."""
        self._lost = True
        self._transport.abort()

    # --- callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._pieces and (self._waiter is None or self._waiter.done()):
            self.close()  # no request is waiting for this data
            return
        self._silent = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(Broken("it wants to speak another protocol"))
        except httptools.HttpParserError as error:
            self._fail(Broken(f"its response is not HTTP ({error})"))
        self._read_head += 0 if self._in_body else len(data)
        if self._read_head > limits.MAX_HEAD:
            self._fail(Broken(f"the headers of its response have more than {limits.MAX_HEAD} bytes"))
        if self._offered and self._in_body and self._is_endless():
            self._start_streaming(self._offered)

    def eof_received(self) -> None:
        self._unread = self._silent and _unread(self._transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._on_lost(self)
        if not self._pieces and (self._waiter is None or self._waiter.done()):
            return
        if error is None and self._in_body and not self._sized:
            self.on_message_complete()  # HTTP/1.0: the body ends with the connection
        elif self._silent:
            reset = isinstance(error, ConnectionResetError | BrokenPipeError)
            unread = self._unread or (reset and self._may_have_crossed())
            self._fail(Broken("it closed the connection without a response", unread=unread))
        else:
            self._fail(Broken("it closed the connection in the middle of its response"))

    # --- callbacks of the parser

    def on_message_begin(self) -> None:
        self._begin()
        self._silent = False

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self._sized = self._sized or name in (b"content-length", b"transfer-encoding")
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_body = self._parser.get_status_code() >= 200

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._pieces:
            self._pieces.feed(body)
        elif self._size > self._max_response:
            self._fail(Broken(f"its response has more than {self._max_response} bytes"))
        else:
            self._chunks.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return  # an interim response such as "100 Continue": the final one follows
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(UpstreamResponse(status, tuple(self._headers), b"".join(self._chunks)))
            self._offered, self._chunks = None, []
        if not self._parser.should_keep_alive():
            self.close()
        self._end_pieces(None)

    def _begin(self) -> None:
        self._headers = []
        self._chunks = []
        self._size = 0
        self._sized = False
        self._in_body = False
        self._unread = False
        self._silent = True

    def _may_have_crossed(self) -> bool:
        """Whether a reset may be that of an idle connection; on a new one, the server may have read the request."""
        return self._kept and self._loop.time() - self._requested_at < _CROSSING_S

    def _is_endless(self) -> bool:
        """Whether a successful response has no known length, or is a stream of events."""
        headers = tuple(self._headers)
        sized = header(headers, b"content-length") is not None
        are_events = (header(headers, b"content-type") or b"").startswith(b"text/event-stream")
        return (are_events or not sized) and 200 <= self._parser.get_status_code() < 300

    def _start_streaming(self, pieces: Pieces) -> None:
        """Return the response now, and pass the rest of its body to the pieces."""
        pieces.begin(self._transport)
        pieces.feed(b"".join(self._chunks))
        self._pieces, self._offered, self._chunks = pieces, None, []
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(UpstreamResponse(self._parser.get_status_code(), tuple(self._headers), b"", pieces))

    def _end_pieces(self, error: Exception | None) -> None:
        if self._pieces:
            self.idle_since = self._loop.time()
            self._loop.call_soon(self._on_free, self)  # after the caller has the response
            self._pieces.end(error)
            self._pieces = None

    def _fail(self, error: Exception) -> None:
        self.close()
        self._offered = None
        self._end_pieces(error)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


def _unread(transport: asyncio.Transport) -> bool:
    """Whether the server closed the connection before it acknowledged the request.

    This happens when the server closes an idle connection while a request is on the way.
    """
    try:
        import fcntl
        import termios
    except ImportError:  # Windows
        return False
    descriptor = transport.get_extra_info("socket").fileno()
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as same:
        if same.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return True
        return any(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))
    return False
