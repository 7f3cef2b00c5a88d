"""Reads the pods' metrics of the services that somebody looks at, and of no others."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from isvc_operator import limits
from isvc_operator.dashboard.feed import Feed
from isvc_operator.dashboard.traffic import Point, Reading, point, reading_of
from isvc_operator.errors import OperatorError
from isvc_operator.manifests import ServiceKey
from isvc_operator.view.source import ServiceSource
from isvc_operator.view.values import Health

EVERY = 5.0  # seconds


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

    def points(self, key: ServiceKey) -> Sequence[Point]:
        """Return the points of a service, the oldest first."""
        return tuple(self._points.get(key, ()))

    @contextmanager
    def watching(self, keys: Iterable[ServiceKey]) -> Iterator[None]:
        """Read the metrics of these services meanwhile."""
        watched = tuple(keys)
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
        for key, left in [*self._left.items()]:
            if key in self._watched:
                del self._left[key]
            elif now - left > limits.DASHBOARD_KEPT_SECONDS:
                del self._left[key]
                self._readings.pop(key, None)
                self._points.pop(key, None)

    async def run(self) -> None:
        """Read every few seconds while somebody looks, until cancelled."""
        while True:
            if not self._watched:
                self._begun.clear()
                await self._begun.wait()
            self._forget()
            started = time.monotonic()
            room = asyncio.Semaphore(limits.DASHBOARD_SCRAPES)
            await asyncio.gather(*(self._read(key, room) for key in tuple(self._watched)))
            await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - started)))

    async def _read(self, key: ServiceKey, room: asyncio.Semaphore) -> None:
        service = self._feed.service(key)
        pods = [
            pod.name
            for component in (service.components if service else ())
            if component.kind == "predictor"
            for pod in component.pods
            if pod.health is Health.READY
        ]
        texts = await asyncio.gather(*(self._scrape(key, pod, room) for pod in pods))
        now, readings = time.monotonic(), {pod: reading for pod, reading in zip(pods, texts, strict=True) if reading}
        if key not in self._watched:
            return
        before, last = self._readings.get(key, (None, {}))
        self._readings[key] = now, readings
        if before is not None and readings:
            pairs = ((last.get(pod), reading) for pod, reading in readings.items())
            points = self._points.setdefault(key, deque(maxlen=limits.DASHBOARD_POINTS))
            points.append(point(time.time(), now - before, pairs))
            self._feed.announce(frozenset((key,)))

    async def _scrape(self, key: ServiceKey, pod: str, room: asyncio.Semaphore) -> Reading | None:
        async with room:
            try:
                text = await self._source.metrics(key, pod)
                return reading_of(text) if 0 < len(text) <= limits.DASHBOARD_METRICS_BYTES else None
            except (OperatorError, ValueError):
                return None  # the pod ends, or has no metrics of ours: it has no traffic to show
