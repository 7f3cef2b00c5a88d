"""The ends of logs that tell why a pod is not ready: read when they may have changed, for the services that change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from isvc.limits import SEEN_LOG_SECONDS
from isvc.view.log_ends import LogEnd, wanted
from isvc_operator.controller.pod_details import end_of_failed, end_of_log
from isvc_operator.kube.client import KubeApi
from isvc_operator.manifests import Manifest, ServiceKey

_SILENT_EVERY: Final = 30.0  # seconds, for one that could not be read in time
_AT_ONCE: Final = 8  # requests


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
