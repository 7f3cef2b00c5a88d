"""A keyed work queue: one reconcile at a time for a key, several keys in parallel, failures tried again later.

A key that is added while it waits is worked on once; one that is added while it is being worked on is worked on once
more after that, so no change is missed and no two reconciles of a service ever overlap.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from isvc_operator.errors import OperatorError
from isvc_operator.kube.cache import ServiceKey

log = logging.getLogger(__name__)

# Is told how often the key has failed since it last worked.
# Returns in how many seconds to work on the key again, if nothing asks for it before.
Reconcile = Callable[[ServiceKey, int], Awaitable[float | None]]

FIRST_RETRY = 0.5  # seconds
LAST_RETRY = 60.0  # seconds


class Worker:
    """Runs ``reconcile`` for the keys it is given."""

    def __init__(self, reconcile: Reconcile, parallel: int = 8) -> None:
        self._reconcile = reconcile
        self._parallel = parallel
        self._ready: asyncio.Queue[ServiceKey] = asyncio.Queue()
        self._waiting: set[ServiceKey] = set()
        self._working: set[ServiceKey] = set()
        self._again: set[ServiceKey] = set()
        self._failures: dict[ServiceKey, int] = {}
        self._timers: dict[ServiceKey, asyncio.TimerHandle] = {}

    def add(self, key: ServiceKey) -> None:
        """Ask for a reconcile of ``key``."""
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._parallel):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._working.add(key)
            try:
                await self._attempt(key)
            finally:
                self._working.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)

    async def _attempt(self, key: ServiceKey) -> None:
        try:
            again = await self._reconcile(key, self._failures.get(key, 0))
        except OperatorError as error:
            log.warning("%s/%s: %s", key.namespace, key.name, error)
            self._retry_later(key)
        except Exception:  # one service must never stop the work on the others
            log.exception("%s/%s: reconcile failed unexpectedly", key.namespace, key.name)
            self._retry_later(key)
        else:
            self._failures.pop(key, None)
            if again is not None:
                self._add_later(key, again)

    def _retry_later(self, key: ServiceKey) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._add_later(key, min(LAST_RETRY, FIRST_RETRY * 2 ** min(failures - 1, 10)))

    def _add_later(self, key: ServiceKey, delay: float) -> None:
        self._timers[key] = asyncio.get_running_loop().call_later(delay, self.add, key)
