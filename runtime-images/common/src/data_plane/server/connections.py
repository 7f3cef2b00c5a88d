"""All connections of a server: how many there are, which of them are idle, and which clients are too slow."""

from __future__ import annotations

import asyncio
from typing import Protocol

from data_plane.limits import KEEP_ALIVE, MAX_CONNECTIONS, MAX_SURPLUS_CONNECTIONS
from data_plane.server.budget import ByteBudget


class OpenConnection(Protocol):
    """The part of a connection that is needed to limit the number and the age of connections."""

    @property
    def transport(self) -> asyncio.Transport: ...

    def end(self) -> None: ...

    def check_timeout(self, now: float) -> None: ...


class Connections:
    """At most `limit` connections. For one more, the connection that has been idle for longest is closed. If none is
    idle, the new one is surplus: it serves probes and metrics, and is closed."""

    def __init__(
        self,
        limit: int = MAX_CONNECTIONS,
        keep_alive_s: float = KEEP_ALIVE,
        budget: ByteBudget | None = None,
        *,
        drain_idle_s: float = 0.0,
    ) -> None:
        self.limit = limit
        self.drain_idle_s = drain_idle_s
        self.budget = budget or ByteBudget()
        self._keep_alive_s = keep_alive_s
        self._open: set[OpenConnection] = set()
        self._surplus: dict[OpenConnection, None] = {}
        self.idle: dict[OpenConnection, float] = {}  # without a request, and since when; the longest first

    def add(self, connection: OpenConnection) -> bool:
        """Add a connection, and return whether it may stay: False for a surplus one."""
        if len(self._open) >= self.limit:
            if not self.idle:
                self._add_surplus(connection)
                return False
            longest = next(iter(self.idle))
            self.remove(longest)
            longest.end()
        self._open.add(connection)
        return True

    def _add_surplus(self, connection: OpenConnection) -> None:
        self._surplus[connection] = None
        if len(self._surplus) > MAX_SURPLUS_CONNECTIONS:
            oldest = next(iter(self._surplus))
            self.remove(oldest)
            oldest.transport.abort()

    def remove(self, connection: OpenConnection) -> None:
        """Forget a connection that is closed, or will be."""
        self._open.discard(connection)
        self._surplus.pop(connection, None)
        self.idle.pop(connection, None)

    def check_timeouts(self, now: float) -> None:
        """Close the connections that have been idle for too long or whose clients are too slow; called every second."""
        for connection, since in list(self.idle.items()):
            if now - since < self._keep_alive_s:
                break
            self.remove(connection)
            connection.end()
        for connection in (*self._open, *self._surplus):
            connection.check_timeout(now)
