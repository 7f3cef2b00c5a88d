"""Reads the pods' metrics: often of the services that somebody looks at, seldom of the others."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from isvc import limits
from isvc.dashboard.feed import Feed
from isvc.dashboard.traffic import Point, Reading, point, reading_of
from isvc.view.diagnosis import Answered
from isvc.view.source import ServiceSource
from isvc.view.values import HealthStatus, ServiceView
from isvc_operator.api.names import PREDICTOR, TRANSFORMER
from isvc_operator.errors import OperatorError
from isvc_operator.manifests import ServiceKey

_log = logging.getLogger(__name__)

EVERY = 5.0  # seconds
SELDOM = 30.0  # seconds, for a service that nobody looks at
_NOT_FOUND = 404
_AGAIN = 30.0  # seconds, for a pod that has no metrics, or does not respond: it would keep others waiting

_Readings = dict[str, Reading]  # by the pod


async def answered_requests(source: ServiceSource, service: ServiceView) -> Answered:
    """Return what the ready pods of a service have answered; of a transformer's, also what its predictor has."""
    kinds, room = _servers(service), asyncio.Semaphore(limits.DASHBOARD_SCRAPES)

    async def reading(pod: str) -> Reading | None:
        async with room:
            return await _reading(source, ServiceKey(service.namespace, service.name), pod)

    found = await asyncio.gather(*map(reading, kinds))
    readings = {pod: counted for pod, counted in zip(kinds, found, strict=True) if counted}
    answered = {PREDICTOR: Counter[int](), TRANSFORMER: Counter[int]()}
    for pod, counted in readings.items():
        answered[kinds[pod]].update(counted.requests)
    first = answered[_first(kinds[pod] for pod in readings)]
    # A client that asks the predictor itself is not answered by the transformer.
    without_model = min(first[_NOT_FOUND], answered[PREDICTOR][_NOT_FOUND]) if TRANSFORMER in kinds.values() else 0
    return Answered(first, without_model)


class Scraping:
    """The traffic of services: the last half hour, read more often while somebody looks."""

    def __init__(self, source: ServiceSource, feed: Feed) -> None:
        self._source = source
        self._feed = feed
        self._watched = Counter[ServiceKey]()
        self._read_at: dict[ServiceKey, float] = {}
        self._readings: dict[ServiceKey, tuple[float, _Readings]] = {}
        self._points: dict[ServiceKey, deque[Point]] = {}
        self._silent: dict[tuple[ServiceKey, str], float] = {}  # pods without metrics, and when they are asked again
        self._room = asyncio.Semaphore(limits.DASHBOARD_SCRAPES)

    def points(self, key: ServiceKey) -> Sequence[Point]:
        """Return the points of a service, the oldest first."""
        return tuple(self._points.get(key, ()))

    @contextmanager
    def watching(self, keys: Iterable[ServiceKey]) -> Iterator[None]:
        """Read the metrics of these services more often meanwhile."""
        watched = tuple(keys)
        self._watched.update(watched)
        try:
            yield
        finally:
            self._watched.subtract(watched)
            self._watched = +self._watched

    async def run(self) -> None:
        """Read every few seconds, until cancelled."""
        reading = dict[ServiceKey, asyncio.Task[None]]()
        async with asyncio.TaskGroup() as tasks:
            while True:
                reading = {key: task for key, task in reading.items() if not task.done()}
                for key in self._due().difference(reading):  # one that is slow keeps no other one waiting
                    self._read_at[key] = time.monotonic()
                    reading[key] = tasks.create_task(self._read(key))
                await asyncio.sleep(EVERY)

    def _due(self) -> set[ServiceKey]:
        """Return the services to read now, of those that nobody looks at a few: however many there are, it is little.

        Those that do not exist any more are forgotten.
        """
        keys, now = self._source.keys(), time.monotonic()
        self._silent = {place: until for place, until in self._silent.items() if until > now}
        for known in (self._read_at, self._readings, self._points):
            for key in known.keys() - set(keys):
                del known[key]
        waiting = sorted(keys, key=lambda key: self._read_at.get(key, 0.0))
        seldom = [key for key in waiting if now - self._read_at.get(key, -SELDOM) >= SELDOM]
        return {*(key for key in keys if key in self._watched), *seldom[: limits.DASHBOARD_SCRAPES]}

    async def _read(self, key: ServiceKey) -> None:
        try:
            await self._take(key)
        except Exception:  # noqa: BLE001 - logged, and the traffic of the others goes on
            _log.exception("the traffic of %s cannot be shown", key)

    async def _take(self, key: ServiceKey) -> None:
        service = self._feed.service(key)
        kinds = _servers(service) if service else {}
        texts = await asyncio.gather(*(self._scrape(key, pod) for pod in kinds))
        now, readings = time.monotonic(), {pod: found for pod, found in zip(kinds, texts, strict=True) if found}
        before, last = self._readings.get(key, (None, {}))
        self._readings[key] = now, readings
        if before is not None and readings:
            first = _first(kinds[pod] for pod in readings)
            pairs = [(kinds[pod] == first, last.get(pod), found) for pod, found in readings.items()]
            points = self._points.setdefault(key, deque(maxlen=limits.DASHBOARD_POINTS))
            points.append(point(time.time(), now - before, pairs))
            self._feed.changed.note([key])
        elif not kinds and key in self._points:
            self._points[key].append(Point(at=time.time()))  # without pods there is no traffic

    async def _scrape(self, key: ServiceKey, pod: str) -> Reading | None:
        if self._silent.get((key, pod), 0.0) > time.monotonic():
            return None
        async with self._room:
            if found := await _reading(self._source, key, pod):
                return found
        self._silent[key, pod] = time.monotonic() + _AGAIN
        return None


def _servers(service: ServiceView) -> dict[str, str]:
    """Return the kind of the component of each ready pod that serves requests."""
    return {
        pod.name: component.kind
        for component in service.components
        if component.kind in (PREDICTOR, TRANSFORMER)
        for pod in component.pods
        if pod.health is HealthStatus.READY
    }


def _first(kinds: Iterable[str]) -> str:
    """Return the component that clients wait for: a transformer waits for its predictor."""
    return TRANSFORMER if TRANSFORMER in kinds else PREDICTOR


async def _reading(source: ServiceSource, key: ServiceKey, pod: str) -> Reading | None:
    """Return what a pod has counted; None if it ends, or has no metrics of ours."""
    try:
        text = await source.metrics(key, pod)
        if 0 < len(text) <= limits.DASHBOARD_METRICS_BYTES:
            return await asyncio.to_thread(reading_of, text)
    except (OperatorError, ValueError):
        pass
    return None
