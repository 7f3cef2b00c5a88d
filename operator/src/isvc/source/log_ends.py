"""The ends of logs that tell why a pod is not ready: read when they may have changed, for the services that change.

- of a container that has failed, once for each of its instances
- of a storage-initializer that copies, the line with its progress
- of a server that runs and is not ready yet
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from isvc.limits import SEEN_LOG_SECONDS
from isvc_operator.api.names import CONTAINER_INITIALIZER, LABEL_APP
from isvc_operator.controller.pod_details import end_of_failed, end_of_log
from isvc_operator.kube.client import KubeApi
from isvc_operator.manifests import Manifest, Pod, ServiceKey, labels_of, name_of
from isvc_operator.observe.pods import (
    LOADING,
    STARTING,
    first_failure,
    is_ready,
    newest_revision,
    stage_of,
    waiting_container,
)

_LINES: Final = 10
_WAITING_LINES: Final = 5
_PROGRESS_EVERY: Final = 2.0  # seconds
_WAITING_EVERY: Final = 5.0  # seconds
_SILENT_EVERY: Final = 30.0  # seconds, for one that could not be read in time
_PODS: Final = 5  # of a component, of which logs are read
_AT_ONCE: Final = 8  # requests


@dataclass(frozen=True, kw_only=True)
class LogEnd:
    """An end of a log to read: again after ``every`` seconds, or once for each ``attempt`` of the container."""

    pod: str
    container: str
    lines: int
    previous: bool = False
    every: float | None = None
    attempt: str = ""


def wanted(pods: Iterable[Pod]) -> Iterator[LogEnd]:
    """Yield what to read of the pods of a service."""
    by_component: dict[str, list[Pod]] = {}
    for pod in pods:
        by_component.setdefault(labels_of(pod).get(LABEL_APP, ""), []).append(pod)
    for group in by_component.values():
        unready = [pod for pod in newest_revision(group) if not is_ready(pod)]
        for pod in unready[:_PODS]:
            yield from _of_pod(pod)


def _of_pod(pod: Pod) -> Iterator[LogEnd]:
    name, stage, failure = name_of(pod), stage_of(pod).reason, first_failure([pod])
    if failure and failure.has_log and failure.container:
        yield LogEnd(
            pod=name, container=failure.container, lines=_LINES, previous=failure.previous, attempt=failure.attempt
        )
    elif stage == LOADING:
        yield LogEnd(pod=name, container=CONTAINER_INITIALIZER, lines=1, every=_PROGRESS_EVERY)
    elif stage == STARTING and (container := waiting_container(pod)):
        yield LogEnd(pod=name, container=container, lines=_WAITING_LINES, every=_WAITING_EVERY)


@dataclass
class _Read:
    end: LogEnd
    text: str
    due: float


@dataclass
class LogEnds:
    """Keeps the ends of logs of services. ``clock`` counts seconds."""

    api: KubeApi
    clock: Callable[[], float]
    _read: dict[ServiceKey, dict[tuple[str, str], _Read]] = field(default_factory=dict)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    def of(self, key: ServiceKey) -> Mapping[tuple[str, str], str]:
        """Return what was read last of a service: texts by pod and container."""
        return {place: read.text for place, read in self._read.get(key, {}).items() if read.text}

    async def refresh(self, key: ServiceKey, pods: Iterable[Manifest]) -> float | None:
        """Read what is due; return in how many seconds there may be more, None if that takes a change of a pod."""
        ends = {(end.pod, end.container): end for end in wanted(pods)}
        known = self._read.get(key, {})
        kept = {place: known[place] for place, end in ends.items() if place in known and known[place].end == end}
        due = [end for place, end in ends.items() if place not in kept or kept[place].due <= self.clock()]
        for read in await asyncio.gather(*(self._one(key, end) for end in due)):
            kept[read.end.pod, read.end.container] = read
        if kept:
            self._read[key] = kept
        else:
            self._read.pop(key, None)
        next_due = min((read.due for read in kept.values()), default=float("inf"))
        return None if next_due == float("inf") else max(0.0, next_due - self.clock())

    async def _one(self, key: ServiceKey, end: LogEnd) -> _Read:
        async with self._slots:
            try:
                async with asyncio.timeout(SEEN_LOG_SECONDS):
                    read = end_of_failed if end.attempt else end_of_log
                    text = await read(
                        self.api, key.namespace, end.pod, end.container, previous=end.previous, lines=end.lines
                    )
            except TimeoutError:  # the node is gone, most likely, and the pods of other nodes wait
                known = self._read.get(key, {}).get((end.pod, end.container))
                text = known.text if known and known.end == end else ""
                return _Read(end, text, self.clock() + _SILENT_EVERY)
        return _Read(end, text, self.clock() + end.every if end.every else float("inf"))
