"""A keyed work queue: one reconcile at a time for a key, several keys in parallel, failures retried with a backoff.

A key that is added while it waits is reconciled once. One that is added while it is being reconciled is reconciled once
more after that. So no change is missed, and reconciles of a service never overlap.

Keys that are added together, because a change concerns many services, are queued a few at a time, so that a change of a
single service does not wait for all of them.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

from isvc_operator.errors import InvalidSpec, OperatorError, Unexpected
from isvc_operator.kube.errors import KubeError, NotOurs, NotPermitted, RequestRefused
from isvc_operator.limits import LONGEST_BACKOFF_SECONDS, RETRIES_PER_SECOND
from isvc_operator.manifests import ServiceKey
from isvc_operator.telemetry.logs import logged_for
from isvc_operator.telemetry.snapshot import QueueState, Result

log = logging.getLogger(__name__)

# Called with the key and the number of failures since its last success. Returns in how many seconds to requeue the key,
# unless it is added before.
Reconcile = Callable[[ServiceKey, int], Awaitable[float | None]]

# Called with the result of each reconcile and its duration in seconds.
Reconciled = Callable[[Result, float], None]

FIRST_BACKOFF = 0.5  # seconds


class Worker:
    """Runs ``reconcile`` for the keys that are added.

    ``clock`` counts seconds, ``random`` returns numbers from 0 to 1.
    """

    def __init__(
        self,
        reconcile: Reconcile,
        parallel: int = 8,
        *,
        reconciled: Reconciled = lambda _result, _seconds: None,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._reconcile = reconcile
        self._parallel = parallel
        self._many: dict[ServiceKey, None] = {}
        self._added = asyncio.Event()  # to the keys above
        self._room = asyncio.Event()  # in the queue, for one of them
        self._reconciled = reconciled
        self._clock = clock
        self._random = random
        self._ready: asyncio.Queue[ServiceKey | None] = asyncio.Queue()  # None wakes what waits, to stop
        self._stopping = False
        # Since when each key waits, or is worked on; the oldest is the first.
        self._queued: dict[ServiceKey, float] = {}
        self._working: dict[ServiceKey, float] = {}
        self._moved = clock()
        self._requeued: set[ServiceKey] = set()
        self._failures: dict[ServiceKey, int] = {}
        self._failed: dict[ServiceKey, Result] = {}
        self._timers: dict[ServiceKey, asyncio.TimerHandle] = {}

    def add(self, key: ServiceKey) -> None:
        self._many.pop(key, None)
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if key in self._working:
            self._requeued.add(key)
        elif key not in self._queued:
            now = self._clock()
            if not self._queued:
                self._moved = now  # an empty queue does not stand still
            self._queued[key] = now
            self._ready.put_nowait(key)

    def add_many(self, keys: Iterable[ServiceKey]) -> None:
        """Queue a reconcile of each of these keys when there is time for it."""
        self._many.update(dict.fromkeys(keys))
        self._added.set()

    def state(self) -> QueueState:
        now = self._clock()
        return QueueState(
            waiting=len(self._queued) + len(self._many),
            oldest=now - next(iter(self._queued.values()), now),
            running=len(self._working),
            longest=now - next(iter(self._working.values()), now),
            still=now - self._moved if self._queued else 0.0,
            retrying=Counter(self._failed.values()),
        )

    def stop(self) -> None:
        """Begin no more reconciles; ``run`` returns when those in progress have ended."""
        self._stopping = True
        for _ in range(self._parallel):
            self._ready.put_nowait(None)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            feeding = group.create_task(self._feed())
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._parallel):
                    workers.create_task(self._work())
            feeding.cancel()

    async def _feed(self) -> None:
        """Queue the keys that were added together, when few others wait."""
        while True:
            while not self._many:
                self._added.clear()
                await self._added.wait()
            while len(self._queued) >= self._parallel:
                self._room.clear()
                await self._room.wait()
            if self._many:
                self.add(next(iter(self._many)))

    async def _work(self) -> None:
        while (key := await self._ready.get()) is not None and not self._stopping:
            del self._queued[key]
            self._room.set()
            self._moved = self._working[key] = self._clock()
            try:
                with logged_for(*key):
                    result = await self._attempt(key)
            finally:
                self._moved = self._clock()
                started = self._working.pop(key)
            self._reconciled(result, self._moved - started)
            if key in self._requeued:
                self._requeued.discard(key)
                self.add(key)

    async def _attempt(self, key: ServiceKey) -> Result:
        try:
            requeue_after = await self._reconcile(key, self._failures.get(key, 0))
        except OperatorError as error:
            log.warning("%s", error)
            return self._retry_later(
                key, _result_of(error), error.retry_after if isinstance(error, KubeError) else None
            )
        except Exception:  # one service must never stop the others
            log.exception("reconcile failed unexpectedly")
            return self._retry_later(key, Result.UNEXPECTED)
        self._failures.pop(key, None)
        self._failed.pop(key, None)
        if requeue_after is not None:
            self._add_later(key, requeue_after)
        return Result.SUCCESS

    def _retry_later(self, key: ServiceKey, result: Result, requested: float | None = None) -> Result:
        """Retry not before the seconds that the API server has ``requested``, and the less often the more keys fail.

        The random part keeps services that failed together from being retried together.
        """
        self._failed[key] = result
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        backoff = FIRST_BACKOFF * 2 ** min(failures - 1, 10)
        longest = min(LONGEST_BACKOFF_SECONDS, max(backoff, len(self._failures) / RETRIES_PER_SECOND))
        self._add_later(key, max(requested or 0.0, longest * (1 - self._random() / 2)))
        return result

    def _add_later(self, key: ServiceKey, delay: float) -> None:
        self._timers[key] = asyncio.get_running_loop().call_later(delay, self.add, key)


def _result_of(error: OperatorError) -> Result:
    if isinstance(error, Unexpected):
        return Result.UNEXPECTED
    of_users = isinstance(error, InvalidSpec | NotOurs | RequestRefused) and not isinstance(error, NotPermitted)
    return Result.REFUSED if of_users else Result.ERROR
