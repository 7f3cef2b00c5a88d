"""The ingress on loopback: a reverse proxy that routes by the Host header, like the cluster's. Bodies are streamed.

A body is passed on unchanged, compressed or not, together with the headers that describe it.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from isvc.run.container import LOOPBACK
from isvc.run.errors import RunFailed
from isvc.run.routes import OWN_NAMES, IngressRoute, find_host, find_route, is_prediction
from isvc_operator import limits
from isvc_operator.text import one_line, shortened

_log = logging.getLogger(__name__)

# RFC 9110, 7.6.1: these are for one connection. Expect is handled here.
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect")
)
# Passed on even if a client's Connection header names them: they determine where a request goes and where it ends.
_END_TO_END = frozenset(("host", "content-length", "content-encoding", "content-type"))
# Those of the dashboard, which is on another port: cookies are of a host. They let in, so no model gets or sets them.
_OUR_COOKIE = re.compile(r"\s*isvc-(dashboard|session)-")
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # not added if the client has sent none
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_DRAIN = 30.0  # seconds
_LAST_PORT = 65535
_CHECKS = 4  # of the unread bytes, during the time that a client has to read them


@asynccontextmanager
async def ingress(
    routes: Sequence[IngressRoute], port: int, predicted: Callable[[IngressRoute, float], None] = lambda _, __: None
) -> AsyncIterator[int]:
    """Listen on loopback and yield the port: a free one if ``port`` is 0. The ``routes`` may change meanwhile.

    ``predicted`` is called for each prediction that was answered with 200, with the seconds that it took.
    On exit, requests in progress are finished first. Raises RunFailed if the port is in use.
    """
    async with aiohttp.ClientSession(
        # A new connection for each request: the server may close an idle one just as a POST is sent.
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
        auto_decompress=False,
    ) as session:
        server = _Server(
            _Proxy(routes, session, predicted).handle,
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
        watching = asyncio.create_task(server.abort_stalled_connections())
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
        other = port + 1 if port < _LAST_PORT else port - 1
        raise RunFailed(f"port {port} {why}; choose another one: --http-port {other}") from error


class _WithoutClientErrors(logging.Filter):
    """Drops errors of clients from the log, which their response reports."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, aiohttp.http.HttpProcessingError | ConnectionError)


_log.addFilter(_WithoutClientErrors())


class _Server(web.Server):
    """Limits the number of open connections.

    For a further one the connection that has been idle for longest is closed. If none is idle, the new one gets a 503
    and is closed.
    """

    def __init__(self, handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], **options: Any) -> None:
        super().__init__(self._handle_one, **options)
        self._handle = handle
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}
        self._idle: dict[web.RequestHandler, None] = {}  # those without a request, the longest idle first

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

    async def abort_stalled_connections(self) -> None:
        """Abort connections whose client has not read anything for too long; until cancelled."""
        before: dict[web.RequestHandler, int] = {}  # bytes in the write buffer
        since: dict[web.RequestHandler, float] = {}
        while True:
            now = asyncio.get_running_loop().time()
            waiting = {handler: size for handler in self._open if (size := self._open[handler].get_write_buffer_size())}
            since = {handler: since[handler] if before.get(handler) == waiting[handler] else now for handler in waiting}
            before = waiting
            for handler, first in since.items():
                if now - first >= limits.INGRESS_UNREAD_SECONDS:
                    self._open[handler].abort()
            await asyncio.sleep(limits.INGRESS_UNREAD_SECONDS / _CHECKS)

    async def _handle_one(self, request: web.BaseRequest) -> web.StreamResponse:
        handler = request.protocol
        self._idle.pop(handler, None)
        try:
            return await self._handle(request)
        finally:
            if handler in self._open:
                self._idle[handler] = None

    def _end(self, handler: web.RequestHandler) -> None:
        del self._idle[handler]
        handler.force_close()
        if self._open[handler].get_write_buffer_size():
            self._open[handler].abort()  # closing would wait until the client has read


def _too_many() -> bytes:
    message = f"{limits.INGRESS_CONNECTIONS} connections are open, and no more are accepted; close some"
    body = json.dumps({"error": message})
    head = "HTTP/1.1 503 Service Unavailable", "Content-Type: application/json", "Connection: close", "Retry-After: 1"
    return "\r\n".join((*head, f"Content-Length: {len(body)}", "", body)).encode()


class _Rejected(Exception):
    """The request cannot be passed on, or not completely."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Body:
    """The body of a request as a stream; ``rejected`` is why it is incomplete."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content
        self.rejected: _Rejected | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self._next():
            yield chunk

    async def _next(self) -> bytes:
        idle = limits.INGRESS_IDLE_SECONDS
        try:
            async with asyncio.timeout(idle):
                return await self._content.readany()
        except TimeoutError:
            self.rejected = _Rejected(408, f"no more of the body was received for {idle:g} s; send it without pauses")
        except (aiohttp.ClientError, aiohttp.http.HttpProcessingError, web.RequestPayloadError) as error:
            self.rejected = _Rejected(400, f"the body cannot be read: {error}")
        raise self.rejected


class _Proxy:
    def __init__(
        self,
        routes: Sequence[IngressRoute],
        session: aiohttp.ClientSession,
        predicted: Callable[[IngressRoute, float], None],
    ) -> None:
        self._routes = routes
        self._session = session
        self._predicted = predicted

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body, clock = _Body(request.content), asyncio.get_running_loop().time
        began = clock()
        with ExitStack() as taken:
            try:
                route = self._route(request)
                await _handle_expect(request)
                upstream = await self._answer(request, route, body, taken)
            except _Rejected as rejected:
                return _error(rejected)
            except aiohttp.ServerTimeoutError:
                return _error(_Rejected(503, f"{route.service} does not respond; it is starting, or it has exited"))
            except aiohttp.ClientError as error:
                return _error(body.rejected or _Rejected(502, f"{route.service} closed the connection: {error}"))
            async with upstream:
                response = await _pass_on(request, upstream)
            if request.method == "POST" and upstream.status == 200 and is_prediction(route.target(request.raw_path)):
                self._predicted(route, clock() - began)
            return response

    async def _answer(
        self, request: web.BaseRequest, route: IngressRoute, body: _Body, taken: ExitStack
    ) -> aiohttp.ClientResponse:
        """Return what a pod answers; one that refuses the connection has got nothing, so another one is asked."""
        refused: set[int] = set()
        while (port := taken.enter_context(route.endpoints.one(refused))) is not None:
            try:
                return await self._send(request, route, port, body)
            except aiohttp.ClientConnectorError:
                taken.close()
                refused.add(port)
        if refused:
            raise _Rejected(503, f"{route.service} does not respond; it is starting, or it has exited")
        raise _Rejected(503, f"{route.service} has no ready pod; it is starting, or it has failed")

    def _route(self, request: web.BaseRequest) -> IngressRoute:
        if not request.raw_path.startswith("/"):
            # An absolute URL could address another server.
            raise _Rejected(
                400, f"the target {request.raw_path!r} of the request is not a path; send one such as /v1/models"
            )
        route = find_route(self._routes, request.host, request.path)
        if route is None:
            places = ", ".join(dict.fromkeys(item.host + item.prefix for item in self._routes))
            host, path = shortened(request.host, 253), shortened(request.path, 253)
            what = f"path {path!r} on host {host!r}" if find_host(self._routes, request.host) else f"host {host!r}"
            raise _Rejected(404, f"no service has the {what}; available: {places}")
        if route.host in OWN_NAMES and _is_of_a_stranger(request):
            raise _Rejected(
                403, "a page of another site has sent this request; send it from a page of this machine, or by curl"
            )
        return route

    async def _send(
        self, request: web.BaseRequest, route: IngressRoute, port: int, body: _Body
    ) -> aiohttp.ClientResponse:
        return await self._session.request(
            request.method,
            URL(f"http://{LOOPBACK}:{port}{route.target(request.raw_path)}", encoded=True),
            headers=_end_to_end(request.headers),
            data=body if request.can_read_body else None,
            skip_auto_headers=_AUTOMATIC,
            allow_redirects=False,
        )


def _is_of_a_stranger(request: web.BaseRequest) -> bool:
    """Whether a web page of another site has a browser send the request; to open a link is not that."""
    if request.headers.get("Sec-Fetch-Mode") == "navigate" and request.method == "GET":
        return False
    if request.headers.get("Sec-Fetch-Site", "").lower() == "cross-site":
        return True
    origin = request.headers.get("Origin")  # of browsers that do not send the other one
    return origin is not None and _host_of(origin) not in OWN_NAMES


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).hostname
    except ValueError:
        return None


async def _handle_expect(request: web.BaseRequest) -> None:
    """Respond to a client that waits for permission to send the body."""
    expected = request.headers.get("Expect", "").lower()
    if expected == "100-continue" and request.version >= aiohttp.HttpVersion11 and request.transport is not None:
        request.transport.write(_CONTINUE)
    elif expected and expected != "100-continue":
        raise _Rejected(417, f"Expect: {expected} is not supported; remove it")


async def _pass_on(request: web.BaseRequest, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=_end_to_end(upstream.headers))
    await response.prepare(request)
    try:
        async for chunk in upstream.content.iter_any():
            await response.write(chunk)
    except aiohttp.ClientError as error:
        raise ConnectionResetError(str(error)) from error  # the head is sent, so the connection can only be closed
    await response.write_eof()
    return response


def _end_to_end(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return the headers that a proxy passes on; Host is one of them."""
    named = {name.strip().lower() for value in headers.getall("Connection", ()) for name in value.split(",")}
    dropped = _HOP_BY_HOP | (named - _END_TO_END)
    kept = ((name, value) for name, value in headers.items() if name.lower() not in dropped)
    return CIMultiDict((name, value) for name, value in map(_without_our_cookies, kept) if value is not None)


def _without_our_cookies(header: tuple[str, str]) -> tuple[str, str | None]:
    """Return a header without the dashboard's cookies, with None for one that had no others."""
    name, value = header
    match name.lower():
        case "set-cookie" if _OUR_COOKIE.match(value):
            return name, None
        case "cookie" if any(map(_OUR_COOKIE.match, cookies := value.split(";"))):
            return name, ";".join(item for item in cookies if not _OUR_COOKIE.match(item)).strip() or None
    return name, value


def _error(rejected: _Rejected) -> web.Response:
    return web.json_response({"error": one_line(str(rejected))}, status=rejected.status)
