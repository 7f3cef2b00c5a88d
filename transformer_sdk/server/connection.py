"""One connection: uvicorn's HTTP/1.1, but for what it leaves open.

The head of a request is bounded; an upgrade that a client offers is declined and its request answered; what cannot be
read is answered in the one form of errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from transformer_sdk.errors import HeadTooLarge, ServingError, UnreadableRequest

if TYPE_CHECKING:
    from transformer_sdk.server.app import App

# Of the request line and all headers, in bytes: proxies take less, and a session's cookies and tokens are far below.
MAX_HEAD = 64 * 1024

# How long a refused client may go on sending before the connection is closed over it.
_LINGER_S = 5.0
_FRAMING = (b"content-length", b"transfer-encoding")


class Connection(HttpToolsProtocol):
    """What uvicorn makes for each client. Every call here is paid for by every request."""

    _received = 0  # bytes of the last segment
    _unfinished: object = None  # the scope of a request whose head goes on after its first segment
    _unfinished_size = 0  # bytes of that head, without the first segment's
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
        if self.scope is not None and "method" not in self.scope:
            self._bound_unfinished_head()

    def on_headers_complete(self) -> None:
        if self._goes_on:
            return
        if (self._received > MAX_HEAD or self._unfinished is self.scope) and self._head_size() > MAX_HEAD:
            raise HeadTooLarge(MAX_HEAD)
        HttpToolsProtocol.on_headers_complete(self)  # super() costs as much as all else here

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

    def _bound_unfinished_head(self) -> None:
        if self._unfinished is not self.scope:
            self._unfinished, self._unfinished_size = self.scope, 0  # this segment may have had another's end
            return
        self._unfinished_size += self._received
        if self._unfinished_size > MAX_HEAD:
            self._refuse(HeadTooLarge(MAX_HEAD))

    def _refuse(self, error: ServingError) -> None:
        """Read no more, and say why, unless an answer to a request before this one is still under way."""
        self.parser, self.scope = _Deaf(), None  # type: ignore[assignment]
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not cycle.more_body:  # it came before
                cycle.keep_alive = False
                return
            if cycle.response_started or self.pipeline:
                self.transport.close()
                return
            cycle.disconnected = True  # it waits for a body that cannot be read
            cycle.message_event.set()
        response, headers = cast("App", self.config.app).refuse(error, tuple(self.headers or ()))
        lines = (b"%b: %b\r\n" % pair for pair in (*self.server_state.default_headers, *headers))
        self.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[response.status], b"".join(lines), response.body))
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
