"""The HTTP server: uvicorn, which serves an ASGI application until `drain` is called."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
from collections.abc import Iterator

import uvicorn

from data_plane.limits import HEAD_TIMEOUT, KEEP_ALIVE, MAX_CONNECTIONS
from data_plane.server.app import App
from data_plane.server.certificate import Certificate
from data_plane.server.connection import ServerConnection
from data_plane.server.connections import Connections

_TICKS = 10  # uvicorn's, in a second
_CERTIFICATE_S = 10  # seconds after which a changed certificate is noticed


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; servers do so before any slow step, so that a port in use fails at once."""
    return socket.create_server((host, port), backlog=2048)


def _without_hint(record: logging.LogRecord) -> bool:
    """Leave out how uvicorn is ended from a keyboard: a container has none, and `isvc run` has its own ways."""
    record.msg = str(record.msg).removesuffix(" (CTRL+C to force quit)").removesuffix(" (Press CTRL+C to quit)")
    return True


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
                timeout_graceful_shutdown=grace_period_s,
                ssl_context_factory=(lambda *_: certificate.context) if certificate else None,
            )
        )
        self.config.load()
        logging.getLogger("uvicorn.error").addFilter(_without_hint)
        self._listener = listener
        self._certificate = certificate

    async def run_until_drained(self) -> None:
        """Serve until `drain` is called and requests under way are finished."""
        await self.serve(sockets=[self._listener])

    def drain(self) -> None:
        """Accept no connections; requests under way, and one more of each idle connection, are finished in time."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, with a timeout for the TLS handshake: connections are not counted before it."""

        def connection() -> asyncio.Protocol:
            return self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )

        timeout_s = HEAD_TIMEOUT if self.config.ssl else None
        self.servers = [
            await asyncio.get_running_loop().create_server(
                connection, sock=one, ssl=self.config.ssl, backlog=self.config.backlog, ssl_handshake_timeout=timeout_s
            )
            for one in sockets or []
        ]
        self.started = True

    def check_timeouts(self, now: float) -> None:
        """Close the connections of slow clients; called every second with the loop's time."""
        self._connections.check_timeouts(now)

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS == 0:
            self.check_timeouts(asyncio.get_running_loop().time())
        if self._certificate and counter % (_TICKS * _CERTIFICATE_S) == 0:
            self._certificate.refresh()
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
