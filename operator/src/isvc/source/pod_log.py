"""Lines of a container's log as they come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from isvc.limits import LOG_LINE_CHARACTERS
from isvc.view.log_ends import last_state
from isvc.view.source import ContainerKey, LogOptions
from isvc.view.times import parse_time
from isvc_operator.kube.client import WatchApi
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.requests import ApiRequest, path_of

Line = tuple[str | None, str]  # its time, None if it has none, and its text

_LINE_BYTES: Final = 4 * LOG_LINE_CHARACTERS  # at most so many for these characters
_MISSED: Final = 100_000  # lines that may have come while there was no connection


def read_log(key: ContainerKey, options: LogOptions, since_time: str) -> ApiRequest:
    """Read a container's log with the times of its lines, for as long as it goes on if it is followed.

    ``since_time``: no line that is older than its second; empty for none.
    """
    query = [("container", key.container), ("timestamps", "true"), ("tailLines", str(options.lines))]
    if options.follow:
        query.append(("follow", "true"))
    if options.previous:
        query.append(("previous", "true"))
    if options.since_seconds is not None:
        query.append(("sinceSeconds", str(options.since_seconds)))
    if since_time:
        query.append(("sinceTime", since_time))
    path = path_of("Pod", key.service.namespace, key.pod) + "/log"
    # A kubelet sends the head of its response with the first line.
    return ApiRequest("GET", path, tuple(query), reads_text=True, begins_late=options.follow)


@dataclass
class _Last:
    """The last line that was passed on: its time, and how many lines of that time there were."""

    at: str = ""
    count: int = 0

    def add(self, at: str | None) -> None:
        if at is not None:
            self.at, self.count = at, self.count + 1 if at == self.at else 1


async def log_lines(
    api: WatchApi, key: ContainerKey, options: LogOptions, still_runs: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[Line, None]:
    """Yield each line once for as long as ``still_runs``, however often the connection ends; raises KubeError.

    A kubelet ends a log after four hours, and proxies end one that says nothing for some minutes. A line that is too
    long is cut.
    """
    last, wanted = _Last(), options
    while True:
        cut: Line | None = None  # a line without its end, which is whole in the next response
        try:
            async with aclosing(_marked_lines(api, key, wanted, last.at)) as lines:
                async for line, is_whole in _unseen(lines, replace(last)):
                    if not is_whole:
                        cut = line
                        continue
                    last.add(line[0])
                    yield line
        except KubeError as error:
            if not error.is_transient or not await still_runs():
                raise
        else:
            if not await still_runs():
                if cut:
                    yield cut
                return
        if last.at:
            wanted = replace(options, lines=_MISSED, since_seconds=None)


async def _unseen(lines: AsyncIterator[tuple[Line, bool]], last: _Last) -> AsyncIterator[tuple[Line, bool]]:
    """Yield the lines after the last one: a log goes on with the beginning of a second, and not of a line."""
    repeated, is_new = last.count, not last.at
    async for line, is_whole in lines:
        if not is_new and line[0] is not None:
            order, known = _order(line[0]), _order(last.at)
            is_new = order > known or (order == known and repeated <= 0)
            repeated -= order == known
        if is_new:
            yield line, is_whole


def _order(at: str) -> tuple[datetime, str]:
    """Return what times of one container are ordered by; a datetime has no nanoseconds."""
    time = datetime.fromisoformat(at)
    return time if time.tzinfo else time.replace(tzinfo=UTC), at


async def _marked_lines(
    api: WatchApi, key: ContainerKey, options: LogOptions, since_time: str
) -> AsyncGenerator[tuple[Line, bool], None]:
    """Yield each line, and whether it is whole: the last one may lack its end."""
    request = read_log(key, options, since_time)
    async with api.stream(request) as parts:
        async for line, is_whole in _lines(parts):
            yield _timed(line.decode(errors="replace")), is_whole


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[tuple[bytes, bool]]:
    rest = b""
    async for part in parts:
        *lines, end = part.split(b"\n")
        for line in lines:
            yield rest + line, True
            rest = b""
        rest = (rest + end)[:_LINE_BYTES]
    if rest:
        yield rest, False


def _timed(line: str) -> Line:
    """Split what the API server writes before each line: a time with nanoseconds."""
    time, _, text = line.partition(" ")
    if parse_time(time) is None:
        return None, last_state(line)[:LOG_LINE_CHARACTERS]
    return time, last_state(text)[:LOG_LINE_CHARACTERS]
