"""Lines of a container's log as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from isvc_operator.kube import requests
from isvc_operator.kube.client import WatchApi
from isvc_operator.kube.requests import LogOptions
from isvc_operator.limits import LOG_LINE_CHARACTERS
from isvc_operator.view.source import ContainerKey

_LINE_BYTES = 4 * LOG_LINE_CHARACTERS  # at most so many for these characters


async def log_lines(api: WatchApi, key: ContainerKey, options: LogOptions) -> AsyncIterator[tuple[str | None, str]]:
    """Yield each line with its time, None if it has none; a line that is too long is cut. Raises KubeError."""
    request = requests.follow_log(key.service.namespace, key.pod, key.container, options)
    async with api.stream(request) as parts:
        async for line in _lines(parts):
            yield _timed(line.decode(errors="replace"))


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for part in parts:
        *lines, end = part.split(b"\n")
        for line in lines:
            yield rest + line
            rest = b""
        rest = (rest + end)[:_LINE_BYTES]
    if rest:
        yield rest


def _timed(line: str) -> tuple[str | None, str]:
    """Split what the API server writes before each line: a time with nanoseconds."""
    time, separator, text = line.partition(" ")
    try:
        datetime.fromisoformat(time)
    except ValueError:
        return None, line[:LOG_LINE_CHARACTERS].rstrip("\r")
    return time, (text if separator else "")[:LOG_LINE_CHARACTERS].rstrip("\r")
