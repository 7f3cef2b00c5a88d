"""One connection: uvicorn's HTTP/1.1, but for what it leaves open.

The head of a request is bounded; an upgrade that a client offers is declined and its request answered; what cannot be
read is answered in the one form of errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from transformer_sdk.errors import HeadTooLarge, ServingError, UnreadableRequest
from transformer_sdk.limits import MAX_HEAD

if TYPE_CHECKING:
    from transformer_sdk.server.app import App

# How long a refused client may go on sending before the connection is closed over it.
_LINGER_S = 5.0
_FRAMING = (b"content-length", b"transfer-encoding")


class Connection(HttpToolsProtocol):
    """What uvicorn makes for each client. Every call here is paid for by every request."""

    _received = 0  # bytes of the last segment
    _unfinished: object = None  # the scope of a request whose head, or what follows its body, goes on after a segment
    _unfinished_size = 0  # bytes of that, without the first segment's
    _goes_on = False  # a parser is being told of a body whose head another one has read

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
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

    def on_headers_complete(self) -> None:
        if self._goes_on:
            return
        if self._received > MAX_HEAD or self._unfinished is self.scope:
            if self._head_size() > MAX_HEAD:
                raise HeadTooLarge(MAX_HEAD)
            self._unfinished = None
        self.scope["headers"] = tuple(self.headers)  # without those that may follow the body
        HttpToolsProtocol.on_headers_complete(self)  # super() costs as much as all else here

    def on_body(self, body: bytes) -> None:
        self._unfinished = None
        HttpToolsProtocol.on_body(self, body)

    def _decline_upgrade(self) -> None:
        """Go on as if nothing had been offered (RFC 9110, 7.8).

        The parser takes a request that offers an upgrade to end with its head. A new one gets another head, of which
        nobody is told, so that it reads the body and what comes after it.
        """
        scope, headers = self.scope, self.headers
        self.cycle.more_body = True
        self.cycle.message_event.clear()
        framing = (b"%b: %b\r\n" % header for header in headers if header[0] in _FRAMING)
        self.parser = httptools.HttpRequestParser(self)
        self._goes_on = True
        try:
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
        finally:
            self._goes_on = False
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
        """Read no more, and say why, unless this is a head and an answer to a request before it is under way."""
        scope, cycle = self.scope, self.cycle
        self.parser, self.scope = _Deaf(), None  # type: ignore[assignment]
        if cycle is not None and cycle.scope is scope:
            self._refuse_body(cycle, error)
        elif cycle is not None and not cycle.response_complete:
            cycle.keep_alive = False
        else:
            self._say(self._refusal(error))

    def _refuse_body(self, cycle: RequestResponseCycle, error: ServingError) -> None:
        if cycle.response_complete:  # nobody wanted it
            self._linger()
            return
        if cycle.response_started:
            self.transport.close()
            return
        cycle.disconnected = True  # it waits for a body that cannot be read
        cycle.message_event.set()
        refusal = self._refusal(error)
        if not self.pipeline:
            self._say(refusal)
            return

        async def say_in_turn(*_: object) -> None:
            self._say(refusal)

        self.pipeline[0] = (cycle, say_in_turn)

    def _refusal(self, error: ServingError) -> bytes:
        response, headers = cast("App", self.config.app).refuse(error, tuple(self.headers or ()))
        lines = (b"%b: %b\r\n" % pair for pair in (*self.server_state.default_headers, *headers))
        return b"%b%b\r\n%b" % (STATUS_LINE[response.status], b"".join(lines), response.body)

    def _say(self, refusal: bytes) -> None:
        self.transport.write(refusal)
        self._linger()

    def _linger(self) -> None:
        """The client may still be sending: closing at once would reset the connection before it reads its answer."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.close)


class _Deaf:
    """In a parser's place: reads nothing."""

    def feed_data(self, data: bytes | memoryview) -> None:
        """Nobody is told."""


def _cause(error: httptools.HttpParserError) -> ServingError:
    if isinstance(error.__context__, ServingError):
        return error.__context__
    # Of our callbacks, only the one that reads the request's target fails.
    reason = "Invalid target" if isinstance(error, httptools.HttpParserCallbackError) else error
    return UnreadableRequest(f"The request is not HTTP/1.1 that can be read: {reason}.")
