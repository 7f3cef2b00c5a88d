"""The stream of the log of a container, or of all: lines with their times and levels, several in an event."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from aiohttp import web

from isvc import limits
from isvc.dashboard.access import VIEWER, Viewer
from isvc.dashboard.errors import HttpRefusal
from isvc.dashboard.pages import Pages
from isvc.dashboard.stream import EventStream, Streams
from isvc.view.source import LOG, ContainerKey, LogOptions
from isvc.view.values import ServiceView
from isvc_operator.errors import OperatorError
from isvc_operator.manifests import ServiceKey
from isvc_operator.text import shortened, visible

_GATHER = 0.1  # seconds for which lines are gathered
_ERROR = "error"
_LEVELS = (
    (
        _ERROR,
        re.compile(r"\b(ERROR|CRITICAL|FATAL|Traceback|Exception|panic)\b|\"level\":\s*\"(error|fatal)\"|Error:"),
    ),
    ("warning", re.compile(r"\b(WARN|WARNING)\b|\"level\":\s*\"warn(ing)?\"")),
    ("debug", re.compile(r"\b(DEBUG|TRACE)\b|\"level\":\s*\"(debug|trace)\"")),
)
Line = tuple[str | None, str, str, str]  # its time, its level, its text, and its container where there are several
Log = AsyncGenerator[tuple[str | None, str], None]


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
        """Send the last lines of a container's log, or of all containers', then each new one."""
        key, service = self._pages.find(request)
        previous = request.query.get("previous") == "true"
        places = _places(service)[: limits.DASHBOARD_LOGS]
        if (pod := request.query.get("pod")) is not None:
            container = request.query.get("container", "")
            places = [("", pod, container) for _, *place in _places(service) if place == [pod, container]]
            if not places:
                raise HttpRefusal(404, f"the service has no pod {pod} with a container {container}")
        async with self._streams.begin(request, lambda viewer: _may_read(viewer, key)) as stream:
            reach, lines = request[VIEWER].reach, limits.DASHBOARD_LOG_LINES // max(1, len(places))
            options = LogOptions(lines=lines, follow=not previous, previous=previous)
            logs = [
                (label, reach.log(ContainerKey(service=key, pod=pod, container=container), options))
                for label, pod, container in places
            ]
            end = await _send(stream, logs)
            await stream.send(json.dumps(end), event="end")
            return stream.response


async def _send(stream: EventStream, logs: Sequence[tuple[str, Log]]) -> str:
    """Send lines as they come, those of a tenth of a second together; return why there are no more."""
    ahead = asyncio.Queue[Line | None](limits.DASHBOARD_LOG_LINES_AHEAD)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(_read_all(logs, ahead))
        try:
            while True:
                gathered = await _gathered(ahead)
                if items := [item for item in gathered if item]:
                    await stream.send(json.dumps([item if item[3] else item[:3] for item in items]), event="lines")
                if None in gathered:
                    return await reading
        finally:
            reading.cancel()  # the source's connections are closed at the end of the group


async def _read_all(logs: Sequence[tuple[str, Log]], ahead: asyncio.Queue[Line | None]) -> str:
    """Read all logs, and then put None; return why there are no more lines."""
    ends = await asyncio.gather(*(_read(label, lines, ahead) for label, lines in logs))
    await ahead.put(None)
    return ends[0] if len(ends) == 1 else "The logs end here"


async def _read(label: str, lines: Log, ahead: asyncio.Queue[Line | None]) -> str:
    """Read all lines of a log; return why there are no more. Lines with an indent go on with an error."""
    end, level = "The log ends here", ""
    try:
        async with aclosing(lines):
            async for at, text in lines:
                shown = shortened(visible(text), limits.DASHBOARD_LOG_LINE_BYTES)
                level = level if level == _ERROR and shown[:1].isspace() else level_of(shown)
                await ahead.put((at, level, shown, label))
    except OperatorError as error:
        end = visible(str(error))
    return end


async def _gathered(ahead: asyncio.Queue[Line | None]) -> list[Line | None]:
    """Return the next lines as soon as there are some, None for the end."""
    items = [await ahead.get()]
    if items[0] is not None and ahead.empty():
        await asyncio.sleep(_GATHER)
    while not ahead.empty():
        items.append(ahead.get_nowait())
    return items


def _may_read(viewer: Viewer, key: ServiceKey) -> bool:
    return viewer.may_see(key) and not viewer.hidden(key) & {LOG, "Pod"}


def _places(service: ServiceView) -> Sequence[tuple[str, str, str]]:
    """Return each container with its name among all, its pod and its own name."""
    return [
        (" ".join([component.kind, *suffix, container.name]), pod.name, container.name)
        for component in service.components
        for pod in component.pods
        for suffix in [[pod.name.rpartition("-")[2]] if len(component.pods) > 1 else []]
        for container in pod.containers
    ]
