"""Serves the dashboard: starts it, puts its parts together, and stops it."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from aiohttp import web
from jinja2 import Environment

from isvc import limits
from isvc.client_errors import WithoutClientErrors
from isvc.dashboard.access import Authenticator, RunToken
from isvc.dashboard.connections import ConnectionLimits
from isvc.dashboard.errors import DashboardFailed
from isvc.dashboard.feed import Feed
from isvc.dashboard.files import Assets
from isvc.dashboard.guard import Guard, add_headers
from isvc.dashboard.log import Logs
from isvc.dashboard.markup import templates
from isvc.dashboard.pages import Pages
from isvc.dashboard.request import KnownRequests, Requests
from isvc.dashboard.scraping import Scraping
from isvc.dashboard.sign_in import People, SignIn
from isvc.dashboard.stream import Streams
from isvc.inference.protocol import InferenceProtocol
from isvc.view.source import ServiceSource
from isvc_operator.manifests import ServiceKey

LOOPBACK = "127.0.0.1"
_LOCAL = (LOOPBACK, "localhost", "[::1]")
_log = logging.getLogger(__name__)
_log.addFilter(WithoutClientErrors())


async def _none_known(_: ServiceKey) -> Mapping[str, tuple[InferenceProtocol, bytes]]:
    return {}


@asynccontextmanager
async def dashboard(
    source: ServiceSource, *, port: int, token: str, where: str, known: KnownRequests = _none_known
) -> AsyncIterator[str]:
    """Serve the dashboard on loopback, and yield its address with the token; a free port if ``port`` is 0.

    ``where`` names what is shown: this machine, or a cluster. ``known`` are requests to begin with in the form. Raises
    DashboardFailed if the port is in use.
    """
    with _listener(LOOPBACK, port) as listener:
        port = listener.getsockname()[1]
        origins = [f"http://{name}:{port}" for name in _LOCAL]
        pages = templates(where=where)
        access = RunToken(token, source, port=port)
        async with _pages(source, access, pages, listener=listener, origins=origins, known=known):
            yield f"http://{LOOPBACK}:{port}/?token={token}"


@asynccontextmanager
async def shared_dashboard(
    source: ServiceSource, people: People, *, port: int, origins: Sequence[str], where: str
) -> AsyncIterator[None]:
    """Serve the dashboard on all addresses of this host to people who sign in; see `dashboard`.

    ``origins`` are those by which they open it: ``https://dashboard.example.com``.
    """
    with _listener("", port) as listener:
        pages = templates(where=where)
        is_secure = all(origin.startswith("https://") for origin in origins)
        clock = asyncio.get_running_loop().time
        access = SignIn(people, pages, is_secure=is_secure, port=listener.getsockname()[1], clock=clock)
        async with _pages(source, access, pages, listener=listener, origins=origins, known=_none_known):
            yield


@asynccontextmanager
async def _pages(
    source: ServiceSource,
    access: Authenticator,
    pages: Environment,
    *,
    listener: socket.socket,
    origins: Sequence[str],
    known: KnownRequests,
) -> AsyncIterator[None]:
    streams, feed = Streams(access, source), Feed(source)
    scraping = Scraping(source, feed)
    guard = Guard(access, pages, origins=origins)
    connections = ConnectionLimits()
    application = web.Application(
        middlewares=[connections.middleware, guard.middleware], client_max_size=limits.DASHBOARD_REQUEST_BYTES
    )
    application.on_response_prepare.append(add_headers)
    services = Pages(source, feed, scraping, streams, pages)
    for room in (access, Assets(), services, Logs(services, streams), Requests(source, services, pages, known)):
        application.add_routes(room.routes())
    async with _serving(application, listener, connections, streams), _running(feed.run, scraping.run):
        yield


def _listener(address: str, port: int) -> socket.socket:
    """Listen on an address; an empty one is all that this host has."""
    both = not address and socket.has_dualstack_ipv6()
    try:
        if both:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server((address, port))
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise DashboardFailed(f"port {port} {why}; choose another one for the dashboard") from error


@asynccontextmanager
async def _serving(
    application: web.Application, listener: socket.socket, connections: ConnectionLimits, streams: Streams
) -> AsyncIterator[None]:
    runner = web.AppRunner(
        application,
        access_log=None,
        logger=_log,
        handler_cancellation=True,
        keepalive_timeout=limits.DASHBOARD_IDLE_SECONDS,
        shutdown_timeout=1.0,
    )
    await runner.setup()
    server = runner.server
    assert server is not None  # noqa: S101 - it is made by setup
    accepting = await asyncio.get_running_loop().create_server(lambda: connections.accept(server), sock=listener)
    try:
        yield
    finally:
        accepting.close()
        await streams.end()
        await runner.cleanup()


@asynccontextmanager
async def _running(*work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Do this work meanwhile. Without it pages would show what was true once: the block ends with a DashboardFailed."""
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(_without_end(item)) for item in work]
            try:
                yield
            finally:
                for task in running:
                    task.cancel()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors.exceptions[0].__cause__


async def _without_end(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception as error:
        _log.exception("the dashboard ends, because it would show no more changes")
        raise DashboardFailed(f"the dashboard would show no more changes: {error or type(error).__name__}") from error
    raise DashboardFailed("the dashboard would show no more changes")
