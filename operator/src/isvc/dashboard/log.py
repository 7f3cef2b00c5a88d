"""The stream of a container's log: lines with their times and levels, several in an event."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress

from aiohttp import web

from isvc import limits
from isvc.dashboard.access import VIEWER, Viewer
from isvc.dashboard.errors import HttpRefusal
from isvc.dashboard.pages import Pages
from isvc.dashboard.stream import HEARTBEAT, EventStream, Streams
from isvc.view.source import LOG, ContainerKey
from isvc.view.values import ServiceView
from isvc_operator.errors import OperatorError
from isvc_operator.manifests import ServiceKey
from isvc_operator.text import shortened, visible

_GATHER = 0.1  # seconds for which lines are gathered
_LEVELS = (
    (
        "error",
        re.compile(r"\b(ERROR|CRITICAL|FATAL|Traceback|Exception|panic)\b|\"level\":\s*\"(error|fatal)\"|Error:"),
    ),
    ("warning", re.compile(r"\b(WARN|WARNING)\b|\"level\":\s*\"warn(ing)?\"")),
    ("debug", re.compile(r"\b(DEBUG|TRACE)\b|\"level\":\s*\"(debug|trace)\"")),
)
Line = tuple[str | None, str, str]  # its time, its level, its text


def level_of(text: str) -> str:
    """Return the level that a line of a log names; ``info`` if it names none."""
    return next((level for level, pattern in _LEVELS if pattern.search(text[:400])), "info")


class Logs:
    """The logs of containers."""

    def __init__(self, pages: Pages, streams: Streams) -> None:
        self._pages = pages
        self._streams = streams

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the route."""
        return (web.get("/services/{namespace}/{name}/log", self.follow),)

    async def follow(self, request: web.Request) -> web.StreamResponse:
        """Send the last lines of a container's log, then each new one."""
        key, service = self._pages.find(request)
        pod, container = request.query.get("pod", ""), request.query.get("container", "")
        if not _exists(service, pod, container):
            raise HttpRefusal(404, f"the service has no pod {pod} with a container {container}")
        previous = request.query.get("previous") == "true"
        async with self._streams.begin(request, lambda viewer: _may_read(viewer, key)) as stream:
            lines = request[VIEWER].reach.log(
                ContainerKey(service=key, pod=pod, container=container),
                lines=limits.DASHBOARD_LOG_LINES,
                follow=not previous,
                previous=previous,
            )
            end = await _send(stream, lines)
            await stream.send(json.dumps(end), event="end")
            return stream.response


async def _send(stream: EventStream, lines: AsyncGenerator[tuple[str | None, str], None]) -> str:
    """Send lines as they come, those of a tenth of a second together; return why there are no more."""
    ahead = asyncio.Queue[Line | None](limits.DASHBOARD_LOG_LINES_AHEAD)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(_read(lines, ahead))
        try:
            while True:
                gathered = await _gathered(ahead)
                if items := [item for item in gathered if item]:
                    await stream.send(json.dumps(items), event="lines")
                if None in gathered:
                    return await reading
                if not items:
                    await stream.beat()
        finally:
            reading.cancel()  # the source's connection is closed at the end of the group


async def _read(lines: AsyncGenerator[tuple[str | None, str], None], ahead: asyncio.Queue[Line | None]) -> str:
    """Read all lines, and then put None; return why there are no more."""
    end = "The log ends here"
    try:
        async with aclosing(lines):
            async for at, text in lines:
                shown = shortened(visible(text), limits.DASHBOARD_LOG_LINE_BYTES)
                await ahead.put((at, level_of(shown), shown))
    except OperatorError as error:
        end = visible(str(error))
    await ahead.put(None)
    return end


async def _gathered(ahead: asyncio.Queue[Line | None]) -> list[Line | None]:
    """Return the next lines as soon as there are some, None for the end; nothing after a while without any."""
    items = list[Line | None]()
    with suppress(TimeoutError):
        async with asyncio.timeout(HEARTBEAT):
            items.append(await ahead.get())
    if items and items[0] is not None and ahead.empty():
        await asyncio.sleep(_GATHER)
    while items and not ahead.empty():
        items.append(ahead.get_nowait())
    return items


def _may_read(viewer: Viewer, key: ServiceKey) -> bool:
    return viewer.may_see(key) and not viewer.hidden(key) & {LOG, "Pod"}


def _exists(service: ServiceView, pod: str, container: str) -> bool:
    return any(
        item.name == pod and any(part.name == container for part in item.containers)
        for component in service.components
        for item in component.pods
    )
