"""The aiohttp sessions of an event loop, and what they tell of the connection of a request."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from data_plane import limits

_NOT_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # headers that aiohttp would add


@dataclass(frozen=True, slots=True)
class Limits:
    connections: int = limits.MAX_PREDICTOR_CONNECTIONS
    connect_s: float = 5.0
    # Shorter than the keep-alive of any server (uvicorn: 5 s), so that requests seldom meet a closing connection.
    idle_s: float = 4.0
    # A Service balances connections when they are opened: new pods get their share as old connections end.
    age_s: float = 300.0
    response_bytes: int = field(default_factory=lambda: limits.MAX_RESPONSE)


@dataclass(slots=True)
class RequestProgress:
    """How far a request has come."""

    sent_at: float | None = None  # when it got a connection
    is_kept: bool = False  # whether that has served a request before


PROGRESS: ContextVar[RequestProgress] = ContextVar("PROGRESS")
"""That of the request which the running task sends."""


class Sessions:
    """A session that keeps connections, for about `age_s`, and one that opens a connection for each request."""

    def __init__(self, limits: Limits) -> None:
        self._connector = _Connector(limit=0, limit_per_host=limits.connections, keepalive_timeout=limits.idle_s)
        self.kept = _session(self._connector)
        self.new = _session(_Connector(limit=0, force_close=True))
        self.in_use = 0  # requests in progress
        self._age_s = limits.age_s
        self._loop = asyncio.get_running_loop()
        self._next_end = self._loop.time() + limits.age_s

    def ends_connection(self) -> bool:
        """Return whether the next request shall be the last of its connection."""
        now = self._loop.time()
        if now < self._next_end:
            return False
        self._next_end = now + self._age_s / max(self.in_use, 1)
        return True

    def open_connections(self) -> int:
        """Count the connections that are in use or kept for the next request."""
        return sum(protocol.is_connected() for protocol in self._connector.protocols)

    async def close(self) -> None:
        await self.kept.close()
        await self.new.close()


class _Connector(aiohttp.TCPConnector):
    """Writes the RequestProgress. aiohttp's tracing could do so, for 4 to 8 % of the processor time of a hop."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.protocols: WeakSet[ResponseHandler] = WeakSet()  # one for each connection

    async def connect(self, req: aiohttp.ClientRequest, *more: Any, **named: Any) -> Connection:
        connection = await super().connect(req, *more, **named)
        progress, protocol = PROGRESS.get(), cast(ResponseHandler, connection.protocol)  # None once it is released
        progress.sent_at, progress.is_kept = asyncio.get_running_loop().time(), protocol in self.protocols
        self.protocols.add(protocol)
        return connection


def _session(connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=_NOT_ADDED,
        max_line_size=limits.MAX_HEAD,
        max_field_size=limits.MAX_HEAD,
        read_bufsize=limits.MAX_WAITING_PIECES // 2,  # reading stops at twice that
    )
