"""One connection: uvicorn's HTTP/1.1 with the bounds that it does not have.

The head of a request is bounded. An upgrade that a client offers is declined, and its request gets a response.
Malformed HTTP gets a response in the common form of errors. The connection of a client that is too slow is closed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

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
    MAX_DISCARDED,
    MAX_HEAD,
    MAX_PIPELINED,
)
from data_plane.server.app import IS_GONE
from data_plane.server.client_timeout import ClientTimeout, WaitsFor
from data_plane.server.connections import Connections
from data_plane.server.cycle import Cycle

if TYPE_CHECKING:
    from collections.abc import Sized

    from data_plane.server.app import App

log = logging.getLogger(__name__)

_FRAMING = (b"content-length", b"transfer-encoding")


class ServerConnection(HttpToolsProtocol):
    """uvicorn makes one for each client. Each method runs for every request, so it has to be cheap."""

    cycle: Cycle  # None before the first request
    _is_surplus = False
    _is_refused = False  # what arrives is no longer read
    _drains = False  # the next response is the last
    _closes = False  # after a response that is written before the body was read
    _body_size = 0  # bytes of the body that have arrived
    _pauses = 0  # of writing, as the client did not read
    _unsent = 0  # bytes of responses that wait for the client, as far as the budget counts them
    _received = 0  # bytes of the last segment
    _unfinished: object = None  # the scope of a request whose head, or what follows its body, goes on after a segment
    _unfinished_size = 0  # bytes of that, without the first segment's
    _replays_head = False  # a new parser gets the framing of a head that another has read

    def __init__(self, *, connections: Connections, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._connections = connections
        self._timeout = ClientTimeout()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self._is_surplus = not self._connections.add(self)
        if not self._is_surplus:
            self._mark_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._count_unsent(0)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._connections.idle.pop(self, None)
        self._received = len(data)
        unread: bytes | memoryview = data
        try:
            while True:
                try:
                    self.parser.feed_data(unread)
                    break
                except httptools.HttpParserUpgrade as offer:
                    unread = memoryview(unread)[offer.args[0] :]
                    self._decline_upgrade()
        except httptools.HttpParserError as error:
            self._refuse(_cause(error))
            return
        if self.scope is not None and ("method" not in self.scope or self.cycle.more_body):
            self._bound_unfinished()
            self._linger_at_end()

    def on_headers_complete(self) -> None:
        if self._replays_head:
            return
        if self._received > MAX_HEAD or self._unfinished is self.scope:
            if self._head_size() > MAX_HEAD:
                raise HeadTooLarge(MAX_HEAD)
            self._unfinished = None
        if self._is_surplus and self.parser.get_method() not in (b"GET", b"HEAD"):
            raise TooManyConnections(self._connections.limit)
        if len(self.pipeline) >= MAX_PIPELINED:
            raise UnreadableRequest(f"More than {MAX_PIPELINED} requests came before the first was answered.")
        for name, value in self.headers:
            if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                raise EncodedTransfer(value.decode("latin-1"))
        self._body_size = 0
        self.scope["headers"] = tuple(self.headers)  # without those that may follow the body
        self._begin()

    def _begin(self) -> None:
        """Start the request whose head is complete; in a pipeline, after those before it."""
        scope, parser = self.scope, self.parser
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = version = parser.get_http_version()
        scope["path"] = unquote(path) if "%" in path else path
        scope["query_string"] = url.query or b""
        before = self.cycle
        self.cycle = Cycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and not self._is_surplus and not self._drains and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        # A method of the cycle, which has the scope, would leave each request to the garbage collector.
        scope[IS_GONE] = self.transport.is_closing  # type: ignore[literal-required]
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body: bytes) -> None:
        """As uvicorn's, with a bound for a body that is discarded."""
        self._unfinished = None
        cycle = self.cycle
        self._body_size += len(body)
        if cycle.response_complete:
            if self._body_size > MAX_DISCARDED:
                self._end_unread()
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        cycle = self.cycle
        cycle.more_body = False
        if cycle.response_complete:
            self._mark_idle()
            return
        if self._closes:
            self._closes = cycle.keep_alive = False
        cycle.message_event.set()

    def on_response_complete(self) -> None:
        """As uvicorn's, without a timer for each request."""
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._closes:
            self._end_unread()
        elif not self.cycle.more_body and self.cycle.scope is self.scope:
            self._mark_idle()

    def shutdown(self) -> None:
        """As uvicorn's, but an idle connection is closed a little later: a request may be on its way."""
        if self.cycle is not None and not self.cycle.response_complete:
            super().shutdown()
            return
        self._drains = True
        self.loop.call_later(self._connections.drain_idle_s, self._end_drained)

    def _end_drained(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def end(self) -> None:
        """Close the connection, which is idle."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # closing would wait until the client has read
        else:
            self.transport.close()

    def _mark_idle(self) -> None:
        self._connections.idle[self] = self.loop.time()

    def pause_writing(self) -> None:
        self._pauses += 1
        self._count_unsent(self.transport.get_write_buffer_size())
        super().pause_writing()

    def resume_writing(self) -> None:
        self._count_unsent(self.transport.get_write_buffer_size())
        super().resume_writing()

    def _count_unsent(self, size: int) -> None:
        self._connections.budget.count_unsent(size - self._unsent)
        self._unsent = size

    def check_timeout(self, now: float) -> None:
        """Close the connection if its client is too slow; called every second."""
        unsent = self.transport.get_write_buffer_size()
        self._count_unsent(unsent)
        if self._timeout.expired(now, *self._state(unsent), received=self._body_size, unsent=unsent):
            self._close_slow_client()

    def _state(self, unsent: int) -> tuple[WaitsFor, object]:
        """Return what the client has to do next, and for which request or pause of writing."""
        cycle, scope, ends = self.cycle, self.scope, self._is_refused or self.transport.is_closing()
        is_answered = ends or cycle is None or cycle.response_complete
        if unsent and (is_answered or self.flow.write_paused):
            return WaitsFor.READING, cycle if is_answered else self._pauses
        if ends or self in self._connections.idle or self.flow.read_paused:
            return WaitsFor.NOTHING, None
        if cycle is None or cycle.scope is not scope:
            return WaitsFor.HEAD, scope
        if cycle.more_body:
            return WaitsFor.BODY, cycle
        return (WaitsFor.HEAD, scope) if cycle.response_complete else (WaitsFor.NOTHING, None)

    def _close_slow_client(self) -> None:
        match self._timeout.waits_for:
            case WaitsFor.HEAD:
                self._refuse(ClientTooSlow(f"The request's head did not come within {HEAD_TIMEOUT} s."))
            case WaitsFor.BODY:
                within_s = self._timeout.allowed_s(self._body_size)
                text = f"Of the request's body {self._body_size} bytes came within {within_s:.0f} s"
                self._refuse(ClientTooSlow(f"{text}; send it without a pause."))
            case _:
                log.info(
                    "a client did not read %d bytes of its response; its connection is closed", self._timeout.unsent
                )
                self.transport.abort()

    def _linger_at_end(self) -> None:
        """Delay the close that a client requested until its body is read.

        To close a connection with unread data resets it, and the client could not read its response.
        """
        if self.scope is not None and "method" in self.scope and not self.cycle.keep_alive:
            self._closes = self.cycle.keep_alive = True

    def _end_unread(self) -> None:
        self._stop_reading()
        self._linger()

    def _stop_reading(self) -> None:
        self.parser, self.scope = _DiscardingParser(), None  # type: ignore[assignment]
        self._is_refused = True

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

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)

    def _bound_unfinished(self) -> None:
        """The parser keeps a header until it is whole, be it of the head or behind the body."""
        if self._unfinished is not self.scope:
            self._unfinished, self._unfinished_size = self.scope, 0  # this segment may have had another's end
            return
        self._unfinished_size += self._received
        if self._unfinished_size > MAX_HEAD:
            self._refuse(HeadTooLarge(MAX_HEAD))

    def _refuse(self, error: ServingError) -> None:
        """Stop reading, and send the error, unless a response to an earlier request is in progress."""
        scope, cycle = self.scope, self.cycle
        self._stop_reading()
        if cycle is not None and cycle.scope is scope:
            self._refuse_body(cycle, error)
        elif cycle is not None and not cycle.response_complete:
            cycle.keep_alive = False
        else:
            self._send_refusal(self._refusal(error))

    def _refuse_body(self, cycle: Cycle, error: ServingError) -> None:
        if cycle.response_complete:  # the body was discarded
            self._linger()
            return
        if cycle.response_started:
            self.transport.close()
            return
        cycle.disconnected = True  # the app waits for a body that cannot be read
        cycle.message_event.set()
        refusal = self._refusal(error)
        if not self.pipeline:
            self._send_refusal(refusal)
            return

        async def send_in_turn(*_: object) -> None:
            self.flow.resume_reading()  # else the connection would not end with its client
            self._send_refusal(refusal)

        self.pipeline[0] = (cycle, send_in_turn)

    def _refusal(self, error: ServingError) -> bytes:
        response, headers = cast("App", self.config.app).refuse(error, tuple(self.headers or ()))
        lines = (b"%b: %b\r\n" % pair for pair in (*self.server_state.default_headers, *headers))
        return b"%b%b\r\n%b" % (STATUS_LINE[response.status], b"".join(lines), response.body)

    def _send_refusal(self, refusal: bytes) -> None:
        self.transport.write(refusal)
        self._linger()

    def _linger(self) -> None:
        """Close later: the client may still be sending, and to close at once would reset the connection."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER, self.transport.close)


class _Flow(FlowControl):
    """Does not resume reading while requests wait in the pipeline: the body of one would grow without a reader."""

    def __init__(self, transport: asyncio.Transport, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        if not self._pipeline:
            FlowControl.resume_reading(self)


class _DiscardingParser:
    """Takes the place of the parser, and discards what arrives."""

    def feed_data(self, data: bytes | memoryview) -> None:
        """Discard the data."""


def _cause(error: httptools.HttpParserError) -> ServingError:
    if isinstance(error.__context__, ServingError):
        return error.__context__
    # Only the callback that parses the request's target raises.
    reason = "Invalid target" if isinstance(error, httptools.HttpParserCallbackError) else error
    return UnreadableRequest(f"The request is not HTTP/1.1 that can be read: {reason}.")
