"""The aiohttp sessions of an event loop, and what they tell of the connection of a request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace

import aiohttp

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

    is_queued: bool = False  # waits for a connection, as all are in use
    sent_at: float | None = None  # when it got a connection
    is_kept: bool = False  # whether that has served a request before

    def sent(self, *, is_kept: bool) -> None:
        self.sent_at, self.is_kept, self.is_queued = asyncio.get_running_loop().time(), is_kept, False


class Sessions:
    """A session that keeps connections, for about `age_s`, and one that opens a connection for each request."""

    def __init__(self, limits: Limits) -> None:
        self.kept = _session(
            aiohttp.TCPConnector(limit=0, limit_per_host=limits.connections, keepalive_timeout=limits.idle_s)
        )
        self.new = _session(aiohttp.TCPConnector(limit=0, force_close=True))
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

    async def close(self) -> None:
        await self.kept.close()
        await self.new.close()


def _session(connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=_NOT_ADDED,
        max_line_size=limits.MAX_HEAD,
        max_field_size=limits.MAX_HEAD,
        read_bufsize=limits.MAX_WAITING_PIECES // 2,  # reading stops at twice that
        trace_configs=[_tracing()],
    )


def _tracing() -> aiohttp.TraceConfig:
    """Return what writes the RequestProgress of requests."""

    async def queued(_: object, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.is_queued = True

    async def connected(_: object, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.sent(is_kept=False)

    async def reused(_: object, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.sent(is_kept=True)

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_queued_start.append(queued)
    tracing.on_connection_create_end.append(connected)
    tracing.on_connection_reuseconn.append(reused)
    return tracing
