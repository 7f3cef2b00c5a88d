"""A keyed work queue: one reconcile at a time for a key, several keys in parallel, failures retried with a backoff.

A key that is added while it waits is reconciled once. One that is added while it is being reconciled is reconciled once
more after that. So no change is missed, and reconciles of a service never overlap.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from isvc_operator.errors import OperatorError
from isvc_operator.kube.cache import ServiceKey

log = logging.getLogger(__name__)

# Called with the key and the number of failures since its last success. Returns in how many seconds to requeue the key,
# unless it is added before.
Reconcile = Callable[[ServiceKey, int], Awaitable[float | None]]

FIRST_BACKOFF = 0.5  # seconds
LONGEST_BACKOFF = 60.0  # seconds


class Worker:
    """Runs ``reconcile`` for the keys that are added."""

    def __init__(self, reconcile: Reconcile, parallel: int = 8) -> None:
        self._reconcile = reconcile
        self._parallel = parallel
        self._ready: asyncio.Queue[ServiceKey] = asyncio.Queue()
        self._queued: set[ServiceKey] = set()
        self._working: set[ServiceKey] = set()
        self._requeued: set[ServiceKey] = set()
        self._failures: dict[ServiceKey, int] = {}
        self._timers: dict[ServiceKey, asyncio.TimerHandle] = {}

    def add(self, key: ServiceKey) -> None:
        """Queue a reconcile of ``key``."""
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if key in self._working:
            self._requeued.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._parallel):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._ready.get()
            self._queued.discard(key)
            self._working.add(key)
            try:
                await self._attempt(key)
            finally:
                self._working.discard(key)
            if key in self._requeued:
                self._requeued.discard(key)
                self.add(key)

    async def _attempt(self, key: ServiceKey) -> None:
        try:
            requeue_after = await self._reconcile(key, self._failures.get(key, 0))
        except OperatorError as error:
            log.warning("%s/%s: %s", key.namespace, key.name, error)
            self._retry_later(key)
        except Exception:  # one service must never stop the others
            log.exception("%s/%s: reconcile failed unexpectedly", key.namespace, key.name)
            self._retry_later(key)
        else:
            self._failures.pop(key, None)
            if requeue_after is not None:
                self._add_later(key, requeue_after)

    def _retry_later(self, key: ServiceKey) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._add_later(key, min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** min(failures - 1, 10)))

    def _add_later(self, key: ServiceKey, delay: float) -> None:
        self._timers[key] = asyncio.get_running_loop().call_later(delay, self.add, key)
