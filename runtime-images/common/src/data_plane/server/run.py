"""The HTTP server: uvicorn, which serves an ASGI application until `drain` is called."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
from collections.abc import Iterator

import uvicorn

from data_plane.limits import KEEP_ALIVE, MAX_CONNECTIONS
from data_plane.server.app import App
from data_plane.server.certificate import Certificate
from data_plane.server.connection import ServerConnection
from data_plane.server.connections import Connections

EVERY_ADDRESS = "::" if socket.has_dualstack_ipv6() else ""


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; servers do so before any slow step, so that a port in use fails at once.

    On `::`, it accepts IPv4 as well.
    """
    is_ipv6 = ":" in host
    family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=2048, dualstack_ipv6=is_ipv6)
    # Connections inherit it. asyncio sets it only where the socket names its protocol; without it, a response on a
    # connection that is kept alive waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _is_no_routine(record: logging.LogRecord) -> bool:
    """Leave out that uvicorn starts and ends: `life` says so, and not under the name `uvicorn.error`."""
    return record.levelno > logging.INFO


class HttpServer(uvicorn.Server):
    """uvicorn, without its signal handlers: the caller decides what a signal means."""

    def __init__(
        self,
        app: App,
        listener: socket.socket,
        *,
        grace_period_s: int,
        keep_alive_s: int = KEEP_ALIVE,
        certificate: Certificate | None = None,
        max_connections: int = MAX_CONNECTIONS,
        drain_idle_s: float = 0.0,
    ) -> None:
        self._connections = Connections(
            max_connections, keep_alive_s, app.budget, drain_idle_s=min(drain_idle_s, grace_period_s / 2)
        )
        super().__init__(
            uvicorn.Config(
                app,
                loop="uvloop",
                http=functools.partial(ServerConnection, connections=self._connections),  # type: ignore[arg-type]
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                callback_notify=self._each_second,
                timeout_notify=1,
                timeout_graceful_shutdown=grace_period_s,
                ssl_context_factory=(lambda *_: certificate.context) if certificate else None,
            )
        )
        self.config.load()
        logging.getLogger("uvicorn.error").addFilter(_is_no_routine)
        self._listener = listener
        self._certificate = certificate

    async def run_until_drained(self) -> None:
        """Serve until `drain` is called and requests under way are finished."""
        await self.serve(sockets=[self._listener])

    def drain(self) -> None:
        """Accept no connections; requests under way, and one more of each idle connection, are finished in time."""
        self.should_exit = True

    def check_timeouts(self, now: float) -> None:
        """Close the connections of slow clients; called every second with the loop's time."""
        self._connections.check_timeouts(now)

    async def _each_second(self) -> None:
        self.check_timeouts(asyncio.get_running_loop().time())
        if self._certificate:
            self._certificate.refresh()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
