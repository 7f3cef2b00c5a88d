"""The connections of the dashboard: so many at a time, and none on which no request arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakSet

from aiohttp import web

from isvc import limits


class ConnectionLimits:
    """Accepts connections for a server; the middleware sees on which of them a request arrives."""

    def __init__(self) -> None:
        self._asking = WeakSet[asyncio.BaseTransport]()

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Keep the connection of a request open: from then on, the server limits its idle time."""
        if request.transport is not None:
            self._asking.add(request.transport)
        return await handler(request)

    def accept(self, server: web.Server) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        if len(server.connections) >= limits.DASHBOARD_CONNECTIONS:
            return _Full()
        handler = server()
        asyncio.get_running_loop().call_later(limits.DASHBOARD_HEAD_SECONDS, self._close_silent, handler)
        return handler

    def _close_silent(self, handler: web.RequestHandler) -> None:
        if handler.transport is not None and handler.transport not in self._asking:
            handler.transport.close()


class _Full(asyncio.Protocol):
    """Closes a connection at once, because as many as may be are open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
