"""Serves the dashboard: starts it, puts its parts together, and stops it."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

from aiohttp import web

from isvc_operator import limits
from isvc_operator.dashboard.access import RunToken
from isvc_operator.dashboard.errors import DashboardFailed
from isvc_operator.dashboard.feed import Feed
from isvc_operator.dashboard.files import Assets
from isvc_operator.dashboard.guard import Guard, add_headers
from isvc_operator.dashboard.log import Logs
from isvc_operator.dashboard.markup import templates
from isvc_operator.dashboard.pages import Pages
from isvc_operator.dashboard.request import Requests
from isvc_operator.dashboard.scraping import Scraping
from isvc_operator.dashboard.stream import Streams
from isvc_operator.view.source import ServiceSource

LOOPBACK = "127.0.0.1"
_log = logging.getLogger(__name__)


@asynccontextmanager
async def dashboard(source: ServiceSource, *, port: int, token: str, where: str) -> AsyncIterator[str]:
    """Serve the dashboard on loopback, and yield its address with the token; a free port if ``port`` is 0.

    ``where`` names what is shown: this machine, or a cluster. Raises DashboardFailed if the port is in use.
    """
    with _listener(port) as listener:
        port = listener.getsockname()[1]
        streams, feed = Streams(), Feed(source)
        scraping = Scraping(source, feed)
        pages = templates(where=where)
        guard = Guard(RunToken(token, port=port), pages, port=port)
        application = web.Application(middlewares=[guard.middleware], client_max_size=limits.DASHBOARD_REQUEST_BYTES)
        application.on_response_prepare.append(add_headers)
        services = Pages(source, feed, scraping, streams, pages)
        for room in (Assets(), services, Logs(source, services, streams), Requests(source, services, pages)):
            application.add_routes(room.routes())
        async with _serving(application, listener, streams), _running(feed.run(), scraping.run()):
            yield f"http://{LOOPBACK}:{port}/?token={token}"


def _listener(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise DashboardFailed(f"port {port} {why}; choose another one for the dashboard") from error


@asynccontextmanager
async def _serving(application: web.Application, listener: socket.socket, streams: Streams) -> AsyncIterator[None]:
    runner = web.AppRunner(
        application,
        access_log=None,
        handler_cancellation=True,
        keepalive_timeout=limits.DASHBOARD_IDLE_SECONDS,
        shutdown_timeout=1.0,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        streams.end()
        await runner.cleanup()


@asynccontextmanager
async def _running(*work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(item) for item in work]
    for task in tasks:
        task.add_done_callback(_report)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        _log.error("the dashboard shows no more changes: %s", error, exc_info=error)
