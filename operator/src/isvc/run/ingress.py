"""HTTP on loopback: the ingress, which routes by the Host header like the cluster's, and the ports of Services.

Bodies are streamed, and passed on unchanged, compressed or not, together with the headers that describe them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from isvc.client_errors import WithoutClientErrors
from isvc.run.container import LOOPBACK
from isvc.run.endpoints import Endpoints
from isvc.run.ports import unusable
from isvc.run.routes import OWN_NAMES, IngressRoute, find_host, find_route, is_of_server, is_prediction
from isvc_operator.text import one_line, shortened

_log = logging.getLogger(__name__)
_log.addFilter(WithoutClientErrors())

# RFC 9110, 7.6.1: these are for one connection. Expect is handled here.
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect")
)
# Passed on even if a client's Connection header names them: they determine where a request goes and where it ends.
_END_TO_END = frozenset(("host", "content-length", "content-encoding", "content-type"))
# Those of the dashboard, which is on another port: cookies are of a host. They let in, so no model gets or sets them.
_OUR_COOKIE = re.compile(r"\s*isvc-(dashboard|session)-")
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # not added if the client has sent none
_PAGES = ("/", "/docs")
_WITHOUT_MODEL = ("OPTIONS", "HEAD")  # methods that are answered without asking a model
_DASHBOARD = "X-Isvc-Dashboard"  # for the pages of our servers
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
DRAIN: Final = 30.0  # seconds in which requests in progress are finished

_Handler = Callable[[web.BaseRequest, aiohttp.ClientSession], Awaitable[web.StreamResponse]]


class _Refusal(Exception):
    """The request cannot be passed on; the message says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@asynccontextmanager
async def ingress(
    routes: Sequence[IngressRoute],
    port: int,
    predicted: Callable[[IngressRoute, float], None] = lambda _, __: None,
    front: Callable[[], str] = str,
    *,
    dashboard: Callable[[], str] = str,
) -> AsyncIterator[int]:
    """Listen on loopback and yield the port: a free one if ``port`` is 0. The ``routes`` may change meanwhile.

    ``predicted`` is called for each prediction that was answered with 200, with the seconds that it took. ``front``
    returns the page that browsers get at the root of this machine's own names, ``dashboard`` the address to which the
    pages of servers link.
    On exit, requests in progress are finished first. Raises RunFailed if the port is in use.
    """
    clock = asyncio.get_running_loop().time

    async def handle(request: web.BaseRequest, session: aiohttp.ClientSession) -> web.StreamResponse:
        if _wants_front(request):
            return web.Response(text=front(), content_type="text/html")
        began, route = clock(), _route(routes, request)
        target = route.target(request.raw_path)
        if target in _PAGES and (address := dashboard()):
            headers = request.headers.copy()
            headers[_DASHBOARD] = address
            request = request.clone(headers=headers)
        response = await _pass_on(request, session, route.service, route.endpoints, target)
        if request.method not in _WITHOUT_MODEL and response.status == 200 and is_prediction(target):
            predicted(route, clock() - began)
        return response

    async with _listening(handle, port) as port:
        yield port


@asynccontextmanager
async def service_port(service: str, endpoints: Endpoints) -> AsyncIterator[int]:
    """Listen on loopback, and yield a port whose requests go to the ready pods of a Service."""

    async def handle(request: web.BaseRequest, session: aiohttp.ClientSession) -> web.StreamResponse:
        return await _pass_on(request, session, service, endpoints, _path_of(request))

    async with _listening(handle, 0) as port:
        yield port


@asynccontextmanager
async def _listening(handle: _Handler, port: int) -> AsyncIterator[int]:
    async with aiohttp.ClientSession(
        # A new connection for each request: the server may close an idle one just as a POST is sent.
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
        auto_decompress=False,
    ) as session:

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            try:
                return await handle(request, session)
            except _Refusal as refusal:
                return web.json_response({"error": one_line(str(refusal))}, status=refusal.status)

        server = web.Server(answer, logger=_log, access_log=None, handler_cancellation=True, auto_decompress=False)
        runner = web.ServerRunner(server, shutdown_timeout=DRAIN)
        await runner.setup()
        try:
            await _listen(runner, port)
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()


async def _listen(runner: web.ServerRunner, port: int) -> None:
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
    except OSError as error:
        raise unusable(port, "--http-port", error) from error


def _path_of(request: web.BaseRequest) -> str:
    """Return the path with its query; refuses an absolute URL, which could address another server."""
    if not request.raw_path.startswith("/"):
        raise _Refusal(
            400, f"the target {request.raw_path!r} of the request is not a path; send one such as /v1/models"
        )
    return request.raw_path


def _wants_front(request: web.BaseRequest) -> bool:
    is_root = request.method == "GET" and request.path == "/" and request.host.partition(":")[0] in OWN_NAMES
    return is_root and "text/html" in request.headers.get("Accept", "")


def _route(routes: Sequence[IngressRoute], request: web.BaseRequest) -> IngressRoute:
    _path_of(request)
    route = find_route(routes, request.host, request.path)
    if route is None:
        host, path = shortened(request.host, 253), shortened(request.path, 253)
        known = find_host(routes, request.host)
        places = ", ".join(dict.fromkeys((host if known else item.host) + item.prefix for item in known or routes))
        what = f"path {path!r} on host {host!r}" if known else f"host {host!r}"
        prefixes = {item.prefix for item in known}
        whole = f"; try http://{host}{prefixes.pop()}{path}" if len(prefixes) == 1 and is_of_server(path) else ""
        raise _Refusal(404, f"no service has the {what}; available: {places}{whole}")
    if route.host in OWN_NAMES and _is_of_a_stranger(request):
        raise _Refusal(
            403, "a page of another site has sent this request; send it from a page of this machine, or by curl"
        )
    return route


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


async def _pass_on(
    request: web.BaseRequest, session: aiohttp.ClientSession, service: str, endpoints: Endpoints, target: str
) -> web.StreamResponse:
    """Pass the request on to a ready pod; one that refuses the connection has got nothing, so another one is asked."""
    await _handle_expect(request)
    refused: set[int] = set()
    with ExitStack() as taken:
        while (port := taken.enter_context(endpoints.one(refused))) is not None:
            try:
                return await _exchange(request, session, URL(f"http://{LOOPBACK}:{port}{target}", encoded=True))
            except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError):
                taken.close()
                refused.add(port)
            except aiohttp.ClientError as error:
                raise _Refusal(502, f"{service} closed the connection: {error}") from error
    if refused:
        raise _Refusal(503, f"{service} does not respond; it is starting, or it has exited")
    raise _Refusal(503, f"{service} has no ready pod; it is starting, or it has failed")


async def _handle_expect(request: web.BaseRequest) -> None:
    """Respond to a client that waits for permission to send the body."""
    expected = request.headers.get("Expect", "").lower()
    if expected == "100-continue" and request.version >= aiohttp.HttpVersion11 and request.transport is not None:
        request.transport.write(_CONTINUE)
    elif expected and expected != "100-continue":
        raise _Refusal(417, f"Expect: {expected} is not supported; remove it")


async def _exchange(request: web.BaseRequest, session: aiohttp.ClientSession, url: URL) -> web.StreamResponse:
    async with session.request(
        request.method,
        url,
        headers=_end_to_end(request.headers),
        data=request.content if request.can_read_body else None,
        skip_auto_headers=_AUTOMATIC,
        allow_redirects=False,  # they are the client's to follow
    ) as upstream:
        response = web.StreamResponse(
            status=upstream.status, reason=upstream.reason, headers=_end_to_end(upstream.headers)
        )
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
