"""One connection: uvicorn's HTTP/1.1 with the bounds that it does not have.

A request's head is bounded, and so are the time that a request takes to arrive, the requests that are sent ahead, and
the time that a client takes to read its response. What is malformed gets a response in the common form of errors. An
upgrade that a client offers is declined, and its request gets a response.

This is the only module that uses parts of uvicorn that are not its public API; tests/contract/test_uvicorn.py has them.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from data_plane.errors import (
    ClientTooSlow,
    EncodedTransfer,
    HeadTooLarge,
    ServingError,
    TooManyConnections,
    UnreadableRequest,
)
from data_plane.limits import (
    HEAD_TIMEOUT,
    LINGER,
    MAX_FIELDS,
    MAX_HEAD,
    MAX_PIPELINED,
    MIN_RATE,
    TRANSFER_TIMEOUT,
)
from data_plane.server.app import IS_GONE
from data_plane.server.budget import Held
from data_plane.server.connections import Connections

if TYPE_CHECKING:
    from data_plane.server.app import App

log = logging.getLogger(__name__)

_FRAMING = (b"content-length", b"transfer-encoding")


class ServerConnection(HttpToolsProtocol):
    """uvicorn makes one for each client. Each method runs for every request, so it has to be cheap."""

    _is_surplus = False
    _is_refused = False  # what arrives is no longer read
    _drains = False  # the next response is the last
    _replays_head = False  # a new parser gets the framing of a head that another has read
    _since: float | None = None  # when the request began to arrive that has not arrived completely
    _in_head = True  # of that request
    _segment = 0  # bytes that were read last
    _first = 0  # bytes of the segment in which the request began
    _pending = 0  # bytes of later segments that the parser may keep: of a head, or behind a body
    _body_size = 0  # bytes of the body that have arrived
    _unsent = 0  # bytes of responses that wait for the client, as far as the budget counts them
    _unread: tuple[float, int] | None = None  # since when the client does not read, and how many bytes

    def __init__(self, *, connections: Connections, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._connections = connections
        self._head = Held(connections.budget)  # of a head that has not arrived completely

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._is_surplus = not self._connections.add(self)
        if not self._is_surplus:
            self._connections.idle[self] = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._head.release()
        self._count_unsent(0)
        super().connection_lost(exc)

    # --- what arrives ---

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._connections.idle.pop(self, None)
        self._segment = len(data)
        if self._since is None:
            self._since, self._in_head, self._pending = self.loop.time(), True, 0
        else:
            self._pending += len(data)
        try:
            self._feed(data)
            if self._since is not None:
                self._bound_unfinished()
        except httptools.HttpParserError as error:
            self._refuse(_cause(error))
        except ServingError as error:
            self._refuse(error)

    def _feed(self, data: bytes | memoryview) -> None:
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as offer:
                data = memoryview(data)[offer.args[0] :]
                self._decline_upgrade()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._first = self._segment
        self._since, self._in_head, self._pending, self._body_size = self.loop.time(), True, 0, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """A segment may have thousands, and each takes time and memory."""
        if len(self.headers) >= MAX_FIELDS:
            raise HeadTooLarge(f"The request has more than {MAX_FIELDS} header fields.")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._replays_head:
            self._check_head()
            super().on_headers_complete()
            self.scope["headers"] = tuple(self.headers)  # without those that may follow the body
            self.scope[IS_GONE] = self.transport.is_closing  # type: ignore[literal-required]
            if self._is_surplus or self._drains:
                self.cycle.keep_alive = False
            self._head.release()
        self._in_head, self._pending = False, 0

    def _check_head(self) -> None:
        if self._first + self._pending > MAX_HEAD and self._head_size() > MAX_HEAD:
            raise _too_large()
        if self._is_surplus and self.parser.get_method() not in (b"GET", b"HEAD"):
            raise TooManyConnections(self._connections.limit)
        if len(self.pipeline) >= MAX_PIPELINED:
            raise UnreadableRequest(f"More than {MAX_PIPELINED} requests came before the first was answered.")
        for name, value in self.headers:
            if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                raise EncodedTransfer(value.decode("latin-1"))

    def on_body(self, body: bytes) -> None:
        self._pending = 0
        self._body_size += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._since = None
        super().on_message_complete()

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)

    def _bound_unfinished(self) -> None:
        """The parser keeps a header until it is whole, be it of the head or behind the body."""
        if self._pending > MAX_HEAD:
            raise _too_large()
        if self._in_head:
            self._head.add(self._segment)

    def _decline_upgrade(self) -> None:
        """Go on as if nothing had been offered (RFC 9110, 7.8).

        The parser takes a request that offers an upgrade to end with its head. A new one gets another head, which it
        does not report, so that it reads the body and what follows.
        """
        scope, headers = self.scope, self.headers
        self.cycle.more_body = True
        self.cycle.message_event.clear()
        framing = (b"%b: %b\r\n" % header for header in headers if header[0] in _FRAMING)
        self.parser = httptools.HttpRequestParser(self)
        self._replays_head = True
        try:
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
        finally:
            self._replays_head = False
            self.scope, self.headers = scope, headers

    # --- what is sent ---

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unset_keepalive_if_required()  # a timer for each response; all connections are looked at once a second
        if self._since is None and self.cycle.response_complete and not self.transport.is_closing():
            self._connections.idle[self] = self.loop.time()

    def pause_writing(self) -> None:
        self._count_unsent(self.transport.get_write_buffer_size())
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread = None
        self._count_unsent(self.transport.get_write_buffer_size())
        super().resume_writing()

    def _count_unsent(self, size: int) -> None:
        self._connections.budget.count_unsent(size - self._unsent)
        self._unsent = size

    # --- its end ---

    def shutdown(self) -> None:
        """As uvicorn's, but an idle connection is closed a little later: a request may be on its way."""
        if self._is_busy():
            super().shutdown()
            return
        self._drains = True
        self.loop.call_later(self._connections.drain_idle_s, self._end_drained)

    def _end_drained(self) -> None:
        if not self._is_busy():
            self.transport.close()

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def end(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # closing would wait until the client has read
        else:
            self.transport.close()

    def check_timeout(self, now: float) -> None:
        """Close the connection if its client is too slow; called every second."""
        unsent = self.transport.get_write_buffer_size()
        self._count_unsent(unsent)
        if unsent and (self.flow.write_paused or self._is_refused or not self._is_busy()):
            since, size = self._unread = self._unread or (now, unsent)
            if now - since > TRANSFER_TIMEOUT + size / MIN_RATE:
                log.info("a client did not read %d bytes of its response; its connection is closed", size)
                self.transport.abort()
            return
        self._unread = None
        if self._since is not None and self.flow.read_paused:
            self._since = now
        elif self._since is not None and now - self._since > (allowed_s := self._allowed_s()):
            self._refuse(
                ClientTooSlow(
                    f"The request's head did not come within {HEAD_TIMEOUT} s."
                    if self._in_head
                    else f"Of the request's body {self._body_size} bytes came within {allowed_s:.0f} s; "
                    "send it without a pause."
                )
            )

    def _allowed_s(self) -> float:
        return HEAD_TIMEOUT if self._in_head else TRANSFER_TIMEOUT + self._body_size / MIN_RATE

    def _refuse(self, error: ServingError) -> None:
        """Read no more, and send the error: after the responses to earlier requests, and instead of one's own."""
        self._is_refused, self._since, cycle = True, None, self.cycle
        self._head.release()
        if not self._is_busy():
            self._send_refusal(error)
        elif self._in_head:  # of the request after that
            cycle.keep_alive = False
        else:
            cycle.disconnected = True  # the app waits for a body that cannot be read
            cycle.waiting_for_100_continue = False
            cycle.message_event.set()
            if cycle.response_started:
                self._linger()
            elif self.pipeline:
                self.pipeline[0] = (cycle, self._refuse_in_turn(error))
            else:
                self._send_refusal(error)

    def _refuse_in_turn(self, error: ServingError) -> Any:
        async def send(*_: object) -> None:
            self._send_refusal(error)

        return send

    def _send_refusal(self, error: ServingError) -> None:
        response, headers = cast("App", self.config.app).refuse(error, tuple(self.headers or ()))
        status = b"HTTP/1.1 %d %b\r\n" % (response.status, HTTPStatus(response.status).phrase.encode())
        lines = b"".join(b"%b: %b\r\n" % pair for pair in headers)
        self.transport.write(b"%b%b\r\n%b" % (status, lines, response.body))
        self._linger()

    def _linger(self) -> None:
        """Close later: the client may still be sending, and to close at once would reset the connection."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER, self.transport.close)


def _too_large() -> HeadTooLarge:
    return HeadTooLarge(f"The request line and headers are over the limit of {MAX_HEAD} bytes.")


def _cause(error: httptools.HttpParserError) -> ServingError:
    if isinstance(error.__context__, ServingError):
        return error.__context__
    # Only the callback that parses the request's target raises.
    reason = "Invalid target" if isinstance(error, httptools.HttpParserCallbackError) else error
    return UnreadableRequest(f"The request is not HTTP/1.1 that can be read: {reason}.")
