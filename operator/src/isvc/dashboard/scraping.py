"""Reads the pods' metrics of the services that somebody looks at, and of no others."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from isvc import limits
from isvc.dashboard.feed import Feed
from isvc.dashboard.traffic import Point, Reading, point, reading_of
from isvc.view.source import ServiceSource
from isvc.view.values import HealthStatus
from isvc_operator.errors import OperatorError
from isvc_operator.manifests import ServiceKey

_log = logging.getLogger(__name__)

EVERY = 5.0  # seconds
_AGAIN = 30.0  # seconds, for a pod that has no metrics, or does not respond: it would keep others waiting


class Scraping:
    """The traffic of services: the last half hour, as far as somebody has looked."""

    def __init__(self, source: ServiceSource, feed: Feed) -> None:
        self._source = source
        self._feed = feed
        self._watched = Counter[ServiceKey]()
        self._readings: dict[ServiceKey, tuple[float, dict[str, Reading]]] = {}
        self._points: dict[ServiceKey, deque[Point]] = {}
        self._left: dict[ServiceKey, float] = {}  # when nobody looked any more: people go from page to page
        self._begun = asyncio.Event()
        self._silent: dict[tuple[ServiceKey, str], float] = {}  # pods without metrics, and when they are asked again
        self._room = asyncio.Semaphore(limits.DASHBOARD_SCRAPES)

    def points(self, key: ServiceKey) -> Sequence[Point]:
        """Return the points of a service, the oldest first."""
        return tuple(self._points.get(key, ()))

    @contextmanager
    def watching(self, keys: Iterable[ServiceKey]) -> Iterator[None]:
        """Read the metrics of these services meanwhile."""
        watched, now = tuple(keys), time.monotonic()
        for key in watched:
            if now - self._left.pop(key, now) > 2 * EVERY:  # a point would be about all the time since then
                self._readings.pop(key, None)
        self._watched.update(watched)
        self._begun.set()
        try:
            yield
        finally:
            self._watched.subtract(watched)
            for key in watched:
                if not self._watched[key]:
                    del self._watched[key]
                    self._left[key] = time.monotonic()

    def _forget(self) -> None:
        """Forget the services that nobody has looked at for a while."""
        now = time.monotonic()
        for key in [key for key, left in self._left.items() if now - left > limits.DASHBOARD_KEPT_SECONDS]:
            del self._left[key]
            self._readings.pop(key, None)
            self._points.pop(key, None)
        self._silent = {place: until for place, until in self._silent.items() if until > now}

    async def run(self) -> None:
        """Read every few seconds while somebody looks, until cancelled."""
        reading = dict[ServiceKey, asyncio.Task[None]]()
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._forget()
                reading = {key: task for key, task in reading.items() if not task.done()}
                for key in self._watched.keys() - reading.keys():  # one that is slow keeps no other one waiting
                    reading[key] = tasks.create_task(self._read(key))
                if self._watched:
                    await asyncio.sleep(EVERY)
                else:
                    await self._somebody()

    async def _somebody(self) -> None:
        """Wait until somebody looks, or there is something to forget."""
        self._begun.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.DASHBOARD_KEPT_SECONDS if self._left else None):
                await self._begun.wait()

    async def _read(self, key: ServiceKey) -> None:
        try:
            await self._take(key)
        except Exception:  # noqa: BLE001 - logged, and the traffic of the others goes on
            _log.exception("the traffic of %s cannot be shown", key)

    async def _take(self, key: ServiceKey) -> None:
        service = self._feed.service(key)
        pods = [
            pod.name
            for component in (service.components if service else ())
            if component.kind == "predictor"
            for pod in component.pods
            if pod.health is HealthStatus.READY
        ]
        texts = await asyncio.gather(*(self._scrape(key, pod) for pod in pods))
        now, readings = time.monotonic(), {pod: reading for pod, reading in zip(pods, texts, strict=True) if reading}
        if key not in self._watched:
            return
        before, last = self._readings.get(key, (None, {}))
        self._readings[key] = now, readings
        if before is not None and readings:
            pairs = ((last.get(pod), reading) for pod, reading in readings.items())
            points = self._points.setdefault(key, deque(maxlen=limits.DASHBOARD_POINTS))
            points.append(point(time.time(), now - before, pairs))
            self._feed.changed.note([key])

    async def _scrape(self, key: ServiceKey, pod: str) -> Reading | None:
        if self._silent.get((key, pod), 0.0) > time.monotonic():
            return None
        async with self._room:
            try:
                text = await self._source.metrics(key, pod)
                if 0 < len(text) <= limits.DASHBOARD_METRICS_BYTES:
                    return await asyncio.to_thread(reading_of, text)
            except (OperatorError, ValueError):
                pass  # the pod ends, or has no metrics of ours: it has no traffic to show
        self._silent[key, pod] = time.monotonic() + _AGAIN
        return None
