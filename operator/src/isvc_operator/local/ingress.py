"""The ingress on loopback: a reverse proxy that goes by the Host header, as the cluster's does. Bodies are streamed.

A body is passed on as it came, compressed or not: the headers that describe it are passed on, too.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from isvc_operator import limits
from isvc_operator.local.container import LOOPBACK
from isvc_operator.local.errors import RunFailed
from isvc_operator.local.routes import IngressRoute, find_route
from isvc_operator.text import one_line, shortened

_log = logging.getLogger(__name__)

# RFC 9110, 7.6.1: these concern one connection. Expect is answered here.
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect")
)
# Of the whole way, even if a caller's Connection header names them: they tell where a request goes and where it ends.
_END_TO_END = frozenset(("host", "content-length", "content-encoding", "content-type"))
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # not added where the caller sent none
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_DRAIN = 30.0  # seconds
_LOOKS = 4  # at what a caller has not read, in the time that it is given


@asynccontextmanager
async def ingress(routes: Sequence[IngressRoute], port: int) -> AsyncIterator[int]:
    """Listen on loopback, on the port that is yielded: a free one where ``port`` is 0.

    At the end, requests under way are finished first. Raises RunFailed if the port is taken.
    """
    async with aiohttp.ClientSession(
        # A fresh connection for each request: a kept one may be closed by the server just as a POST is sent.
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
        auto_decompress=False,
    ) as session:
        server = _Server(
            _Proxy(routes, session).handle,
            logger=_log,
            access_log=None,
            handler_cancellation=True,
            auto_decompress=False,
            lingering_time=limits.INGRESS_LINGER_SECONDS,
            keepalive_timeout=limits.INGRESS_IDLE_SECONDS,
            max_line_size=limits.INGRESS_HEADER_BYTES,
            max_field_size=limits.INGRESS_HEADER_BYTES,
            max_headers=limits.INGRESS_HEADERS,
        )
        runner = web.ServerRunner(server, shutdown_timeout=_DRAIN)
        await runner.setup()
        watching = asyncio.create_task(server.give_up_who_does_not_read())
        try:
            await _listen(runner, port)
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()
            watching.cancel()


async def _listen(runner: web.ServerRunner, port: int) -> None:
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise RunFailed(f"port {port} {why}; choose another one: --http-port {port + 1}") from error


class _OurFaults(logging.Filter):
    """Leaves out what callers do wrong: it is in their answer, and no trouble of this machine."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, aiohttp.http.HttpProcessingError | ConnectionError)


_log.addFilter(_OurFaults())


class _Server(web.Server):
    """Takes no more than so many connections at a time.

    Where one more comes, the one that has been without a request for longest is closed; where each has a request, the
    new one is answered, and closed.
    """

    def __init__(self, answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], **options: Any) -> None:
        super().__init__(self._answer_one, **options)
        self._answer = answer
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}
        self._idle: dict[web.RequestHandler, None] = {}  # those without a request, the longest first

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._open[handler] = transport
        if len(self._open) <= limits.INGRESS_CONNECTIONS:
            self._idle[handler] = None
        elif self._idle:
            self._end(next(iter(self._idle)))
            self._idle[handler] = None
        else:
            transport.write(_too_many())
            handler.force_close()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._open.pop(handler, None)
        self._idle.pop(handler, None)

    async def give_up_who_does_not_read(self) -> None:
        """Break off connections on which nothing of what is to be sent has left for so long; until cancelled."""
        seen: dict[web.RequestHandler, int] = {}  # bytes that wait to be sent
        since: dict[web.RequestHandler, float] = {}
        while True:
            now = asyncio.get_running_loop().time()
            waiting = {handler: size for handler in self._open if (size := self._open[handler].get_write_buffer_size())}
            since = {handler: since[handler] if seen.get(handler) == waiting[handler] else now for handler in waiting}
            seen = waiting
            for handler, first in since.items():
                if now - first >= limits.INGRESS_UNREAD_SECONDS:
                    self._open[handler].abort()
            await asyncio.sleep(limits.INGRESS_UNREAD_SECONDS / _LOOKS)

    async def _answer_one(self, request: web.BaseRequest) -> web.StreamResponse:
        handler = request.protocol
        self._idle.pop(handler, None)
        try:
            return await self._answer(request)
        finally:
            if handler in self._open:
                self._idle[handler] = None

    def _end(self, handler: web.RequestHandler) -> None:
        del self._idle[handler]
        handler.force_close()
        if self._open[handler].get_write_buffer_size():
            self._open[handler].abort()  # closing would wait until the caller has read


def _too_many() -> bytes:
    what = f"{limits.INGRESS_CONNECTIONS} connections are open, and no more are taken; close some"
    body = json.dumps({"error": what})
    head = "HTTP/1.1 503 Service Unavailable", "Content-Type: application/json", "Connection: close", "Retry-After: 1"
    return "\r\n".join((*head, f"Content-Length: {len(body)}", "", body)).encode()


class _Refused(Exception):
    """The caller's request cannot be passed on, or not to its end."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Body:
    """What a caller sends, while it comes. ``refused`` is why not all of it came."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content
        self.refused: _Refused | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self._next():
            yield chunk

    async def _next(self) -> bytes:
        idle = limits.INGRESS_IDLE_SECONDS
        try:
            async with asyncio.timeout(idle):
                return await self._content.readany()
        except TimeoutError:
            self.refused = _Refused(408, f"nothing more of the body came for {idle:g} s; send it at once")
        except (aiohttp.ClientError, aiohttp.http.HttpProcessingError, web.RequestPayloadError) as error:
            self.refused = _Refused(400, f"the body cannot be read: {error}")
        raise self.refused


class _Proxy:
    def __init__(self, routes: Sequence[IngressRoute], session: aiohttp.ClientSession) -> None:
        self._routes = routes
        self._session = session

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = _Body(request.content)
        try:
            route = self._route(request)
            await _tell_to_go_on(request)
            upstream = await self._send(request, route, body)
        except _Refused as refused:
            return _error(refused)
        except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError):
            return _error(_Refused(503, f"{route.service} does not answer; it is starting, or it has ended"))
        except aiohttp.ClientError as error:
            return _error(body.refused or _Refused(502, f"{route.service} broke off the request: {error}"))
        async with upstream:
            return await _answer(request, upstream)

    def _route(self, request: web.BaseRequest) -> IngressRoute:
        if not request.raw_path.startswith("/"):
            # Behind the address of the server it could name another one.
            raise _Refused(
                400, f"the target {request.raw_path!r} of the request is no path; send one such as /v1/models"
            )
        route = find_route(self._routes, request.host, request.path)
        if route is None:
            hosts = ", ".join(dict.fromkeys(item.host for item in self._routes))
            raise _Refused(404, f"no service answers to the host {shortened(request.host, 253)!r}; there is: {hosts}")
        return route

    async def _send(self, request: web.BaseRequest, route: IngressRoute, body: _Body) -> aiohttp.ClientResponse:
        return await self._session.request(
            request.method,
            URL(f"http://{LOOPBACK}:{route.port}{request.raw_path}", encoded=True),
            headers=_end_to_end(request.headers),
            data=body if request.can_read_body else None,
            skip_auto_headers=_AUTOMATIC,
            allow_redirects=False,
        )


async def _tell_to_go_on(request: web.BaseRequest) -> None:
    """Answer a caller who sends the body only when it is wanted."""
    expected = request.headers.get("Expect", "").lower()
    if expected == "100-continue" and request.version >= aiohttp.HttpVersion11 and request.transport is not None:
        request.transport.write(_CONTINUE)
    elif expected and expected != "100-continue":
        raise _Refused(417, f"Expect: {expected} cannot be met; leave it out")


async def _answer(request: web.BaseRequest, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=_end_to_end(upstream.headers))
    await response.prepare(request)
    try:
        async for chunk in upstream.content.iter_any():
            await response.write(chunk)
    except aiohttp.ClientError as error:
        raise ConnectionResetError(str(error)) from error  # the head is sent; all that is left is to break off, too
    await response.write_eof()
    return response


def _end_to_end(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """The headers that a proxy passes on; Host is one of them."""
    named = {name.strip().lower() for value in headers.getall("Connection", ()) for name in value.split(",")}
    dropped = _HOP_BY_HOP | (named - _END_TO_END)
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in dropped)


def _error(refused: _Refused) -> web.Response:
    return web.json_response({"error": one_line(str(refused))}, status=refused.status)
