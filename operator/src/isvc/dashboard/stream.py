"""Server-sent events: a response that goes on while somebody looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

from aiohttp import web

from isvc import limits
from isvc.dashboard.access import VIEWER, Authenticator, Viewer
from isvc.dashboard.errors import HttpRefusal, NotSignedIn
from isvc.view.source import ServiceSource
from isvc_operator.errors import OperatorError

HEARTBEAT = 15.0  # seconds after which a stream says that it is there
LOST = 10.0  # seconds without a word from the source, after which pages say so
_LOOKED = 2.0  # seconds between two looks at it
_FAREWELL = 0.5  # seconds in which pages are told that the dashboard stops
_BAR = '<hx-partial hx-target="#connection" hx-swap="outerMorph">{}</hx-partial>'
_STATE = '<span class="connection" id="connection" role="status" data-state="{}">{}</span>'


class EventStream:
    """An open stream of events."""

    def __init__(self, response: web.StreamResponse) -> None:
        self.response = response

    async def send(self, data: str, event: str = "") -> None:
        """Send an event; waits until the client has room for it."""
        head = f"event: {event}\n" if event else ""
        lines = "".join(f"data: {line}\n" for line in data.split("\n"))
        await self.response.write(f"{head}{lines}\n".encode(errors="replace"))

    async def beat(self) -> None:
        """Say again and again that the stream is there, which finds a client that is not."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            await self.response.write(b":\n\n")


class Streams:
    """All open streams, of a limited number.

    ``access`` is asked again and again whether the viewer still is one, and the source whether it is up to date: what
    a browser can tell is only whether it hears from the dashboard.
    """

    def __init__(self, access: Authenticator, source: ServiceSource) -> None:
        self._access = access
        self._source = source
        self._open: dict[asyncio.Task[object], Hashable] = {}  # each with whose it is
        self._pages: set[EventStream] = set()

    @asynccontextmanager
    async def begin(
        self, request: web.Request, may_go_on: Callable[[Viewer], bool] = lambda _: True
    ) -> AsyncIterator[EventStream]:
        """Begin to answer with events; raises HttpRefusal if too many streams are open.

        ``may_go_on`` is asked at each review of the viewer's rights, for a stream that does not look at them itself.
        """
        owner = _owner(request[VIEWER])
        if len(self._open) >= limits.DASHBOARD_STREAMS:
            raise _too_many(f"{limits.DASHBOARD_STREAMS} pages are open")
        if sum(other == owner for other in self._open.values()) >= limits.DASHBOARD_PERSON_STREAMS:
            raise _too_many(f"you have {limits.DASHBOARD_PERSON_STREAMS} pages open")
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a handler runs in a task
        self._open[task] = owner
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
            await response.prepare(request)
            stream = EventStream(response)
            self._pages.add(stream)
            looking = [
                asyncio.create_task(self._look_again(request, task, may_go_on)),
                asyncio.create_task(self._tell_connection(stream)),
                asyncio.create_task(stream.beat()),
            ]
            try:
                yield stream
            finally:
                self._pages.discard(stream)
                for other in looking:
                    other.cancel()
                await asyncio.gather(*looking, return_exceptions=True)
        finally:
            self._open.pop(task, None)

    async def _look_again(
        self, request: web.Request, stream: asyncio.Task[object], may_go_on: Callable[[Viewer], bool]
    ) -> None:
        """End a stream whose viewer has signed out, or may not look any more."""
        while True:
            await asyncio.sleep(limits.DASHBOARD_REVIEW_SECONDS)
            try:
                viewer = await self._access.viewer(request)
            except (HttpRefusal, NotSignedIn, web.HTTPException):
                stream.cancel()
                return
            except OperatorError:
                continue  # the API server does not respond: nothing has changed
            if viewer is not request[VIEWER] or not may_go_on(viewer):
                stream.cancel()  # a page that is shown to somebody else by now asks again
                return

    async def _tell_connection(self, stream: EventStream) -> None:
        """Say in the bar of a page whether what it shows is true now, as soon as that changes."""
        was_lost = False
        while True:
            silent = self._source.silent()
            if (silent >= LOST) is not was_lost:
                was_lost = not was_lost
                since = datetime.now(UTC) - timedelta(seconds=silent)
                text = f"No word from the API server since {since:%H:%M} UTC; trying again"
                state = _STATE.format("lost", text) if was_lost else _STATE.format("live", "Live")
                await stream.send(_BAR.format(state))
            await asyncio.sleep(_LOOKED)

    async def end(self) -> None:
        """Say in all pages that the dashboard stops, and end their streams."""
        text = f"Ended at {datetime.now(UTC):%H:%M} UTC; nothing here is up to date"
        bar = _BAR.format(_STATE.format("lost", text))
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                await asyncio.gather(*(stream.send(bar) for stream in self._pages), return_exceptions=True)
        for task in self._open:
            task.cancel()


def _owner(viewer: Viewer) -> Hashable:
    """Return by what a person is known, with any token; an API server may not say it."""
    return viewer.name or id(viewer.reach)


def _too_many(open_: str) -> HttpRefusal:
    return HttpRefusal(503, f"{open_}, and no more are kept up to date; close some")
