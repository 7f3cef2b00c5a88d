"""Server-sent events: a response that goes on while somebody looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from isvc_operator import limits
from isvc_operator.dashboard.errors import Refused

HEARTBEAT = 15.0  # seconds after which a silent stream says that it is there


class Stream:
    """An open stream of events."""

    def __init__(self, response: web.StreamResponse) -> None:
        self.response = response

    async def send(self, data: str, event: str = "") -> None:
        """Send an event; waits until the client has room for it."""
        head = f"event: {event}\n" if event else ""
        lines = "".join(f"data: {line}\n" for line in data.split("\n"))
        await self.response.write(f"{head}{lines}\n".encode(errors="replace"))

    async def beat(self) -> None:
        """Say that the stream is there, which finds a client that is not."""
        await self.response.write(b":\n\n")


class Streams:
    """All open streams, of a limited number."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[object]] = set()

    @asynccontextmanager
    async def begin(self, request: web.Request) -> AsyncIterator[Stream]:
        """Begin to answer with events; raises Refused if too many streams are open."""
        if len(self._open) >= limits.DASHBOARD_STREAMS:
            raise Refused(
                503, f"{limits.DASHBOARD_STREAMS} pages are open, and no more are kept up to date; close some"
            )
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a handler runs in a task
        self._open.add(task)
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
            await response.prepare(request)
            yield Stream(response)
        finally:
            self._open.discard(task)

    def end(self) -> None:
        """End all streams, as the dashboard stops."""
        for task in self._open:
            task.cancel()
