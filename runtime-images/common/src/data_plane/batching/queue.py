"""The queue in front of a model.

While the model is idle, a request is sent at once. While the model is busy, requests wait; as soon as it is free, all
that fit are sent together. So batches grow with the load, and there is nothing to tune. `gathering.py` decides which
requests form a batch.

A batch that fails is run again one request at a time, so that a bad request fails alone. A batch that took too long is
not run again: its callers have waited long enough, and a model that is too slow gets no more work.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Container, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from data_plane.batching.gathering import Gathering
from data_plane.batching.limits import BatchLimits
from data_plane.batching.metrics import BatchMetrics
from data_plane.errors import (
    ClientGone,
    DeadlineExceeded,
    InferenceFailed,
    QueueFull,
    ServingError,
    UpstreamBroken,
)
from data_plane.model import Call

# Many times the time to write the responses of a batch and to read the requests of the next.
_SHORT_S = 0.1
# Whether an HTTP client has disconnected has to be polled. A full queue polls for all requests, at this interval.
_POLL_GONE_S = 0.1

P = TypeVar("P")
R = TypeVar("R")


@dataclass(slots=True)
class Batch(Generic[P]):
    """Requests that are sent to the model together. All have the same key."""

    key: Hashable
    payloads: Sequence[P]
    is_wanted: Callable[[], bool]  # whether any caller still waits for a response
    # Responds to one request, by its index, before the batch is done; returns False if its caller no longer waits.
    answer_early: Callable[[int, Any], bool]
    model_s: float = math.nan  # the duration in the model; `run` sets it


# Returns one result for each payload, in order; a ServingError for a request that failed alone.
Run = Callable[[Batch[P]], Awaitable[Sequence[R | ServingError]]]


@dataclass(slots=True, eq=False)
class _QueuedRequest(Generic[P, R]):
    payload: P
    size: int
    call: Call
    result: asyncio.Future[R]
    queued_at: float
    timer: asyncio.TimerHandle | None = None
    lane: _Lane[P, R] | None = None  # while it waits


@dataclass(slots=True)
class _Lane(Generic[P, R]):
    key: Hashable
    entries: deque[_QueuedRequest[P, R]] = field(default_factory=deque)


class BatchQueue(Generic[P, R]):
    """Runs the requests of one model with `run`, at most `concurrency` batches at a time.

    `alone`: requests with one of these keys are never merged; with `merging=False`, no requests are.
    `ahead`: while batches are short, sends as many batches again, which wait where the model runs. Otherwise the model
    would be idle for a good part of the time until the next batch arrives.
    `runs_again`: runs a batch that fails again one request at a time. Not for a model that keeps state.
    """

    def __init__(
        self,
        model: str,
        run: Run[P, R],
        limits: BatchLimits,
        metrics: BatchMetrics,
        *,
        concurrency: int = 1,
        alone: Container[Hashable] = (),
        merging: bool = True,
        ahead: bool = False,
        runs_again: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._run = run
        self._limits = limits
        self._metrics = metrics
        self._concurrency = concurrency
        self._gathering = Gathering(limits, alone, merging=merging)
        self._ahead = ahead
        self._runs_again = runs_again
        self._clock = clock
        self._refusal: ServingError | None = None
        self._is_short = False  # the last batch was
        self._free_since = 0.0  # the model has had room for another batch
        self._polled_gone_at = -math.inf
        self._lanes: dict[Hashable, _Lane[P, R]] = {}
        self._waiting = 0
        self._instances = 0  # waiting and running
        self._running = 0
        self._tasks: set[asyncio.Task[None]] = set()  # those that run a batch or set its results
        self._woken = False
        self._drained = asyncio.Event()
        metrics.report_age_of(self)

    @property
    def age_s(self) -> float:
        """How long the oldest waiting request has waited; 0 while none waits."""
        oldest = min(map(_oldest, self._lanes.values()), default=None)
        return 0.0 if oldest is None else max(0.0, self._clock() - oldest)

    @property
    def waiting(self) -> int:
        return self._waiting

    @property
    def concurrency(self) -> int:
        """How many batches may run at a time; may be changed while the queue is in use."""
        return self._concurrency

    @concurrency.setter
    def concurrency(self, batches: int) -> None:
        self._concurrency = batches
        self._free_since = self._clock()
        self._refuse_waiting()
        self._wake()

    @property
    def merging(self) -> bool:
        return self._gathering.merging

    def stop_merging(self) -> None:
        """Run every request as a batch of its own from now on."""
        self._gathering.merging = False

    def refuse(self, error: ServingError) -> None:
        """Raise `error` for every request that would wait, now or later, while `concurrency` is 0."""
        self._refusal = error
        self._refuse_waiting()

    async def submit(self, payload: P, size: int, key: Hashable, call: Call) -> R:
        """Return the result for `payload`, which holds `size` instances.

        Raises what the run raises, what `refuse` was given, QueueFull and DeadlineExceeded.
        """
        if self._refusal and not self._concurrency:
            raise self._refusal.with_traceback(None)
        if self._is_full():
            self.drop_gone()
        if self._is_full():
            self._metrics.rejected.inc()
            raise QueueFull(self._model, self._limits.queue_size)
        loop = asyncio.get_running_loop()
        entry: _QueuedRequest[P, R] = _QueuedRequest(payload, size, call, loop.create_future(), self._clock())
        allowed_s = self._limits.timeout_s
        if allowed_s is not None and entry.queued_at + allowed_s < call.deadline:
            call.deadline, call.timeout_s = entry.queued_at + allowed_s, allowed_s
        if call.deadline < math.inf:
            entry.timer = loop.call_later(max(0.0, call.deadline - entry.queued_at), self._expire, entry)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(key)
        entry.lane = lane
        lane.entries.append(entry)
        self._waiting += 1
        self._instances += size
        if entry.queued_at < self._gathering.until:
            self._gathering.arrived(entry.queued_at)
        self._wake()
        try:
            return await entry.result
        finally:
            if entry.timer:
                entry.timer.cancel()
            if entry.lane:  # its deadline has passed, or its caller is gone
                self._leave(entry, entry.lane)

    def _is_full(self) -> bool:
        return self._waiting >= self._limits.queue_size and self._running >= self._capacity

    def _refuse_waiting(self) -> None:
        if self._refusal and not self._concurrency:
            for lane in list(self._lanes.values()):
                for entry in list(lane.entries):
                    _set_result(entry, self._refusal)
                    self._leave(entry, lane)

    def drop_gone(self) -> None:
        """Drop the requests whose clients have disconnected."""
        now = self._clock()
        if now - self._polled_gone_at >= _POLL_GONE_S:
            self._polled_gone_at = now
            for lane in list(self._lanes.values()):
                for entry in [entry for entry in lane.entries if self._is_pointless(entry)]:
                    self._leave(entry, lane)

    def _leave(self, entry: _QueuedRequest[P, R], lane: _Lane[P, R]) -> None:
        """Take a request out of the queue whose caller no longer waits."""
        entry.lane = None
        lane.entries.remove(entry)
        self._waiting -= 1
        self._instances -= entry.size
        if entry.result.cancelled():
            self._metrics.abandoned.inc()
        if not lane.entries:
            self._lanes.pop(lane.key, None)
        self._check_drained()

    @property
    def _capacity(self) -> int:
        """How many batches may be sent and not finished now."""
        return self._concurrency * (2 if self._ahead and self._is_short else 1)

    async def drained(self) -> None:
        """Return when nothing waits and nothing runs."""
        if self._waiting or self._running:
            self._drained.clear()
            await self._drained.wait()

    def _check_drained(self) -> None:
        if not self._waiting and not self._running:
            self._drained.set()

    def _wake(self) -> None:
        """Form batches as soon as all requests that arrived together are in the queue."""
        if not self._woken and self._waiting and self._running < self._capacity:
            self._woken = True
            self._spawn(self._run_next())

    async def _run_next(self) -> None:
        """Start all batches that may run now; run one of them here, as a task of its own would start a turn later."""
        while self._waits_for_more():  # noqa: ASYNC110 - requests arrive with each turn of the loop
            await asyncio.sleep(0)
        self._woken = False
        if batch := self._next():
            self._start()
            await self._run_batch(*batch)

    def _start(self) -> None:
        while batch := self._next():
            self._spawn(self._run_batch(*batch))

    def _spawn(self, running: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(running)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _next(self) -> tuple[Hashable, list[_QueuedRequest[P, R]]] | None:
        """Take the next batch, with its key, if one may run now; it counts as running."""
        while self._waiting and self._running < self._capacity:
            lane = min(self._lanes.values(), key=_oldest) if len(self._lanes) > 1 else next(iter(self._lanes.values()))
            if entries := self._take(lane):
                self._running += 1
                return lane.key, entries
        return None

    def _expire(self, entry: _QueuedRequest[P, R]) -> None:
        if not entry.result.done():
            # The limit, not the elapsed time: uvloop's timers fire up to a millisecond early.
            allowed_s = entry.call.timeout_s
            entry.result.set_exception(DeadlineExceeded(f"Model {self._model} did not answer within {allowed_s:g} s."))

    def _waits_for_more(self) -> bool:
        """Return whether the next batch is held back for callers who have just got their responses.

        Not where batches are sent ahead: the next one is full by then. Nor while another worker runs one: the processor
        is in use.
        """
        return (
            not self._ahead
            and not self._running
            and self._gathering.expects_more(self._instances)
            and self._clock() < self._gathering.until
        )

    def _take(self, lane: _Lane[P, R]) -> list[_QueuedRequest[P, R]]:
        """Take the next batch from a lane, and drop requests whose callers no longer wait."""
        limit = self._gathering.limit(self._instances, self._capacity)
        merges = self._gathering.merges(lane.key)
        taken: list[_QueuedRequest[P, R]] = []
        size = 0
        while lane.entries and (not taken or (merges and size + lane.entries[0].size <= limit)):
            entry = lane.entries[0]
            if self._is_pointless(entry):
                self._leave(entry, lane)
                continue
            lane.entries.popleft()
            entry.lane = None
            self._waiting -= 1
            taken.append(entry)
            size += entry.size
        if not lane.entries:
            self._lanes.pop(lane.key, None)
        return taken

    def _is_pointless(self, entry: _QueuedRequest[P, R]) -> bool:
        if entry.result.done():
            return True
        if entry.call.is_gone():
            entry.result.set_exception(ClientGone())
            self._metrics.abandoned.inc()
            return True
        return False

    def _batch(self, key: Hashable, entries: Sequence[_QueuedRequest[P, R]]) -> Batch[P]:
        return Batch(
            key,
            [entry.payload for entry in entries],
            lambda: not all(map(self._is_pointless, entries)),
            lambda index, result: self._answer_early(entries[index], result),
        )

    def _answer_early(self, entry: _QueuedRequest[P, R], result: R) -> bool:
        if self._is_pointless(entry):
            return False
        _set_result(entry, result)
        return True

    async def _run_batch(self, key: Hashable, entries: list[_QueuedRequest[P, R]]) -> None:
        size = sum(entry.size for entry in entries)
        started, free_since = self._clock(), self._free_since
        batch = self._batch(key, entries)
        results: Sequence[R | Exception]
        try:
            results = await self._results(batch)
        except (InferenceFailed, UpstreamBroken) as error:
            alone = self._runs_again and len(entries) > 1
            results = await self._run_alone(key, entries) if alone else [error] * len(entries)
        except Exception as error:  # noqa: BLE001 - each caller gets it
            results = [error] * len(entries)
        else:
            self._gathering.succeeded(size, self._clock() - started)
        ended = self._free_since = self._clock()
        model_s = batch.model_s if batch.model_s == batch.model_s else ended - started
        self._is_short = model_s < _SHORT_S
        self._gathering.ended(key, ended, model_s=model_s, instances=self._instances, capacity=self._capacity)
        # Send the next batch before setting results: writing many responses takes as long as running a few requests.
        self._instances -= size
        self._running -= 1
        if self._waits_for_more():
            self._wake()
        else:
            self._start()
        self._check_drained()
        transport_s = ended - started - model_s
        self._metrics.observe_batch(size, len(entries), model_s, transport_s)
        for entry, result in zip(entries, results, strict=True):
            queue_s = max(0.0, free_since - entry.queued_at)
            wait_s = started - entry.queued_at - queue_s
            entry.call.timings.update(queue=queue_s, batch=wait_s, model=model_s, transport=transport_s)
            self._metrics.observe_request(queue_s, wait_s)
            _set_result(entry, result)

    async def _run_alone(self, key: Hashable, entries: list[_QueuedRequest[P, R]]) -> list[R | Exception]:
        self._metrics.retried.inc()
        results: list[R | Exception] = []
        for entry in entries:
            if self._is_pointless(entry):
                results.append(DeadlineExceeded())  # not read
                continue
            try:
                results += await self._results(self._batch(key, [entry]))
            except Exception as error:  # noqa: BLE001 - its caller gets it
                results.append(error)
        return results

    async def _results(self, batch: Batch[P]) -> Sequence[R | ServingError]:
        """Return one result for each request, or raise: no caller ever gets another's result."""
        results = await self._run(batch)
        if len(results) != len(batch.payloads):
            raise InferenceFailed(
                f"{len(batch.payloads)} requests went to the model, {len(results)} results came back."
            )
        return results


def _oldest(lane: _Lane[P, R]) -> float:
    return lane.entries[0].queued_at


def _set_result(entry: _QueuedRequest[P, R], result: R | Exception) -> None:
    if entry.result.done():
        return
    if isinstance(result, Exception):
        entry.result.set_exception(result)
    else:
        entry.result.set_result(result)
