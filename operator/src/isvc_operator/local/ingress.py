"""The ingress on loopback: a reverse proxy that goes by the Host header, as the cluster's does. Bodies are streamed."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from isvc_operator.local.container import LOOPBACK
from isvc_operator.local.errors import RunFailed
from isvc_operator.local.routes import Route, find_route

# RFC 9110, 7.6.1: these concern one connection. The server here has answered Expect itself.
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect")
)
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # not added where the caller sent none
_DRAIN = 30.0  # seconds


@asynccontextmanager
async def ingress(routes: Sequence[Route], port: int) -> AsyncIterator[int]:
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
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", _Proxy(routes, session).handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_DRAIN, handler_cancellation=True)
        await runner.setup()
        try:
            await _listen(runner, port)
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()


async def _listen(runner: web.AppRunner, port: int) -> None:
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise RunFailed(f"port {port} {why}; choose another one: --http-port {port + 1}") from error


class _Proxy:
    def __init__(self, routes: Sequence[Route], session: aiohttp.ClientSession) -> None:
        self._routes = routes
        self._session = session

    async def handle(self, request: web.Request) -> web.StreamResponse:
        route = find_route(self._routes, request.host, request.path)
        if route is None:
            hosts = ", ".join(dict.fromkeys(item.host for item in self._routes))
            return _error(404, f"no service answers to the host {request.host!r}; there is: {hosts}")
        try:
            upstream = await self._send(request, route)
        except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError):
            return _error(503, f"{route.service} does not answer; it is starting, or it has ended")
        except aiohttp.ClientError as error:
            return _error(502, f"{route.service} broke off the request: {error}")
        async with upstream:
            return await _answer(request, upstream)

    async def _send(self, request: web.Request, route: Route) -> aiohttp.ClientResponse:
        return await self._session.request(
            request.method,
            URL(f"http://{LOOPBACK}:{route.port}{request.raw_path}", encoded=True),
            headers=_end_to_end(request.headers),
            data=request.content if request.can_read_body else None,
            skip_auto_headers=_AUTOMATIC,
            allow_redirects=False,
        )


async def _answer(request: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=_end_to_end(upstream.headers))
    await response.prepare(request)
    try:
        async for chunk in upstream.content.iter_any():
            await response.write(chunk)
    except aiohttp.ClientError as error:
        raise ConnectionResetError(str(error)) from error  # the head is sent; all that is left is to break off, too
    await response.write_eof()
    return response


def _end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """The headers that a proxy passes on; Host is one of them."""
    named = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP | named)


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)
