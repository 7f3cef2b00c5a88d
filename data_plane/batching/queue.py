"""The queue in front of a model.

A request never waits for company when the model is idle: it goes at once. While the model is busy requests queue up,
and as soon as it is free again all that fit go together; those who have just been answered get a moment to ask again.
So batches grow with the load, and there is nothing to tune.

A batch whose run fails is run again one request at a time: a bad request fails alone. One that took too long is not:
its callers have waited long enough, and a model that is too slow gets no more to do.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Container, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from data_plane.batching.limits import BatchDuration, BatchLimits
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

# Many times what it takes to write the answers of a batch and to read the requests of the next.
_SHORT_S = 0.1
# Callers ask again one soon after the other. A longer pause between two, as a share of what the batch took and never
# longer than this, means that no more will.
_PAUSE_SHARE = 0.1
_PAUSE_S = 0.001
# Whether a caller by HTTP has hung up must be asked for; in a full queue that is done for all at once, this far apart.
_LOOK_S = 0.1

P = TypeVar("P")
R = TypeVar("R")


@dataclass(slots=True)
class Batch(Generic[P]):
    """Requests that go to the model together. All have the same key."""

    key: Hashable
    payloads: Sequence[P]
    is_wanted: Callable[[], bool]  # whether anybody still waits for one of the answers
    # Answers one request, by its place, before the batch is done; False where its caller waits no more.
    answer_early: Callable[[int, Any], bool]
    model_s: float = math.nan  # what the model took, filled in by who runs it


# One result for each payload, in order; a ServingError in the place of one that failed alone.
Run = Callable[[Batch[P]], Awaitable[Sequence[R | ServingError]]]


@dataclass(slots=True, eq=False)
class _Entry(Generic[P, R]):
    payload: P
    size: int
    call: Call
    answer: asyncio.Future[R]
    queued_at: float
    timer: asyncio.TimerHandle | None = None
    lane: _Lane[P, R] | None = None  # where it waits


@dataclass(slots=True)
class _Lane(Generic[P, R]):
    """Waiting requests that may share a batch."""

    key: Hashable
    entries: deque[_Entry[P, R]] = field(default_factory=deque)


class BatchQueue(Generic[P, R]):
    """Runs the requests of one model by `run`, at most `concurrency` batches at a time.

    `alone`: each request with one of these keys is a batch of its own.
    `ahead`: as many again are sent to wait where the model runs, while batches are so short that the model would be
    idle for a good part of the time until the next one arrives.
    `runs_again`: a batch that fails is run again one request at a time. Not so where a run may have changed state.
    """

    def __init__(
        self,
        model: str,
        run: Run[P, R],
        limits: BatchLimits,
        metrics: BatchMetrics,
        concurrency: int = 1,
        *,
        alone: Container[Hashable] = (),
        ahead: bool = False,
        runs_again: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._run = run
        self._limits = limits
        self._metrics = metrics
        self._concurrency = concurrency
        self._alone = alone
        self._ahead = ahead
        self._runs_again = runs_again
        self._clock = clock
        self._is_short = False  # the last batch was
        self._expected = 0  # instances, if all who were there when the last batch ended ask again
        self._pause_s = 0.0
        self._gathers_until = 0.0
        self._free_since = 0.0  # the model has had room for another batch
        self._looked_at = -math.inf  # for callers who are gone
        self._lanes: dict[Hashable, _Lane[P, R]] = {}
        self._waiting = 0
        self._instances = 0  # waiting and running
        self._running = 0
        self._tasks: set[asyncio.Task[None]] = set()  # those that run a batch or hand out its answers
        self._woken = False
        self._drained = asyncio.Event()
        self._duration = BatchDuration()
        self.merging = True  # False: every request is a batch of its own

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return self._waiting

    @property
    def concurrency(self) -> int:
        """How many batches may run at a time; may be changed while the queue is in use."""
        return self._concurrency

    @concurrency.setter
    def concurrency(self, batches: int) -> None:
        self._concurrency = batches
        self._free_since = self._clock()
        self._wake()

    async def submit(self, payload: P, size: int, key: Hashable, call: Call) -> R:
        """The result for `payload`, which holds `size` instances; raises what the run raises, QueueFull and
        DeadlineExceeded."""
        if self._is_full():
            self.drop_gone()
        if self._is_full():
            self._metrics.rejected.inc()
            raise QueueFull(self._model, self._limits.queue_size)
        loop = asyncio.get_running_loop()
        entry: _Entry[P, R] = _Entry(payload, size, call, loop.create_future(), self._clock())
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
        if entry.queued_at < self._gathers_until:
            self._gathers_until = max(self._gathers_until, entry.queued_at + self._pause_s)
        self._wake()
        try:
            return await entry.answer
        finally:
            if entry.timer:
                entry.timer.cancel()
            if entry.lane:  # its time is over, or its caller is gone: its place is for others
                self._leave(entry, entry.lane)

    def _is_full(self) -> bool:
        return self._waiting >= self._limits.queue_size and self._running >= self._capacity

    def drop_gone(self) -> None:
        """Take those out of the queue whose callers have hung up."""
        now = self._clock()
        if now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            for lane in list(self._lanes.values()):
                for entry in [entry for entry in lane.entries if self._is_pointless(entry)]:
                    self._leave(entry, lane)

    def _leave(self, entry: _Entry[P, R], lane: _Lane[P, R]) -> None:
        """Nobody waits for the answer to this request any more."""
        entry.lane = None
        lane.entries.remove(entry)
        self._waiting -= 1
        self._instances -= entry.size
        if entry.answer.cancelled():
            self._metrics.abandoned.inc()
        if not lane.entries:
            self._lanes.pop(lane.key, None)
        if not self._waiting and not self._running:
            self._drained.set()

    @property
    def _capacity(self) -> int:
        """Batches that may be on their way now."""
        return self._concurrency * (2 if self._ahead and self._is_short else 1)

    async def drained(self) -> None:
        """Returns when nothing waits and nothing runs."""
        if self._waiting or self._running:
            self._drained.clear()
            await self._drained.wait()

    def _wake(self) -> None:
        """Batches are formed when all requests that arrived together are in the queue."""
        if not self._woken and self._waiting and self._running < self._capacity:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._woken = False
        if self._gathers():
            self._wake()
            return
        while self._waiting and self._running < self._capacity:
            lane = min(self._lanes.values(), key=_oldest) if len(self._lanes) > 1 else next(iter(self._lanes.values()))
            if entries := self._take(lane):
                task = asyncio.get_running_loop().create_task(self._run_batch(lane.key, entries))
                self._running += 1
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        if not self._waiting and not self._running:
            self._drained.set()

    def _expire(self, entry: _Entry[P, R]) -> None:
        if not entry.answer.done():
            # The limit, not what the clock says: timers of uvloop go off up to a millisecond early.
            allowed_s = entry.call.timeout_s
            entry.answer.set_exception(DeadlineExceeded(f"Model {self._model} did not answer within {allowed_s:g} s."))

    def _gathers(self) -> bool:
        """Callers who have just been answered ask again at once: two halves of a batch take longer than the whole.

        Where the next batch is sent ahead, it is full by then; while another worker runs one, the processor is in use.
        """
        return (
            not self._ahead
            and not self._running
            and 0 < self._instances < self._expected
            and self._clock() < self._gathers_until
        )

    def _take(self, lane: _Lane[P, R]) -> list[_Entry[P, R]]:
        """The next batch of a lane; requests that nobody waits for any more are dropped."""
        limit, merges = self._batch_limit(), self._merges(lane.key)
        taken: list[_Entry[P, R]] = []
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

    def _is_pointless(self, entry: _Entry[P, R]) -> bool:
        """Nobody waits for the answer any more."""
        if entry.answer.done():
            return True
        if entry.call.is_gone():
            entry.answer.set_exception(ClientGone())
            self._metrics.abandoned.inc()
            return True
        return False

    def _merges(self, key: Hashable) -> bool:
        return self.merging and key not in self._alone

    def _batch_limit(self) -> int:
        # Each worker takes its share of all there is: else one takes all that waits, and the others find nothing.
        share = -(-self._instances // max(1, self._capacity))  # there may be no worker just now
        limit = min(self._limits.max_batch_size, share)
        if self._limits.max_latency_s is None:
            return limit
        return self._duration.largest_within(self._limits.max_latency_s, limit)

    def _batch(self, key: Hashable, entries: Sequence[_Entry[P, R]]) -> Batch[P]:
        return Batch(
            key,
            [entry.payload for entry in entries],
            lambda: not all(map(self._is_pointless, entries)),
            lambda place, result: self._answer_early(entries[place], result),
        )

    def _answer_early(self, entry: _Entry[P, R], result: R) -> bool:
        if self._is_pointless(entry):
            return False
        _answer(entry, result)
        return True

    async def _run_batch(self, key: Hashable, entries: list[_Entry[P, R]]) -> None:
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
        else:  # what fails takes what a timeout, a worker's restart or many batches take
            self._duration.observe(size, self._clock() - started)
        ended = self._free_since = self._clock()
        model_s = batch.model_s if batch.model_s == batch.model_s else ended - started
        self._is_short = model_s < _SHORT_S
        self._expected = self._batch_limit() if self._merges(key) else 0
        self._pause_s = min(_PAUSE_S, _PAUSE_SHARE * model_s)
        self._gathers_until = ended + 2 * self._pause_s  # the answers are on their way first
        # The model is busy again before the answers are handed out: writing many takes as long as running a few.
        self._instances -= size
        self._running -= 1
        self._dispatch()
        transport_s = ended - started - model_s
        self._metrics.observe_batch(size, len(entries), model_s, transport_s)
        for entry, result in zip(entries, results, strict=True):
            queue_s = max(0.0, free_since - entry.queued_at)
            wait_s = started - entry.queued_at - queue_s
            entry.call.timings.update(queue=queue_s, batch=wait_s, model=model_s, transport=transport_s)
            self._metrics.observe_request(queue_s, wait_s)
            _answer(entry, result)

    async def _run_alone(self, key: Hashable, entries: list[_Entry[P, R]]) -> list[R | Exception]:
        self._metrics.retried.inc()
        results: list[R | Exception] = []
        for entry in entries:
            if self._is_pointless(entry):
                results.append(DeadlineExceeded())  # nobody reads it
                continue
            try:
                results += await self._results(self._batch(key, [entry]))
            except Exception as error:  # noqa: BLE001 - its caller gets it
                results.append(error)
        return results

    async def _results(self, batch: Batch[P]) -> Sequence[R | ServingError]:
        """One result for each request, or none at all: no caller ever gets another's."""
        results = await self._run(batch)
        if len(results) != len(batch.payloads):
            raise InferenceFailed(
                f"{len(batch.payloads)} requests went to the model, {len(results)} results came back."
            )
        return results


def _oldest(lane: _Lane[P, R]) -> float:
    return lane.entries[0].queued_at


def _answer(entry: _Entry[P, R], result: R | Exception) -> None:
    if entry.answer.done():
        return
    if isinstance(result, Exception):
        entry.answer.set_exception(result)
    else:
        entry.answer.set_result(result)
