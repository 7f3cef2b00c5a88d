"""A model behind a queue that runs when the test says so."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Container, Sequence

from prometheus_client import CollectorRegistry

from data_plane.batching.limits import BatchLimits
from data_plane.batching.metrics import BatchMetricsRegistry
from data_plane.batching.queue import Batch, BatchQueue
from data_plane.errors import InferenceFailed, ServingError
from data_plane.model import Call

DEFAULTS = BatchLimits()


class ControlledModel:
    """Answers in capitals: at once if `free`, else when `finish` is called. Batches with a `bad` one fail by `error`.

    `model_s` is what it says that a batch took. `batch` is the last one that it got.
    """

    def __init__(
        self,
        *,
        free: bool = False,
        bad: set[str] | None = None,
        error: ServingError | None = None,
        drop_last: bool = False,
        model_s: float = math.nan,
    ) -> None:
        self.free = free
        self.batches: list[list[str]] = []
        self.batch: Batch[str] | None = None
        self.registry = CollectorRegistry()
        self._bad = bad or set()
        self._error = error or InferenceFailed("a bad one")
        self._drop_last = drop_last
        self._model_s = model_s
        self._release = asyncio.Event()
        self._started = asyncio.Condition()

    async def run(self, batch: Batch[str]) -> Sequence[str | ServingError]:
        self.batch = batch
        self.batches.append(list(batch.payloads))
        async with self._started:
            self._started.notify_all()
        if not self.free:
            await self._release.wait()
            self._release.clear()
        batch.model_s = self._model_s
        if self._bad.intersection(batch.payloads):
            raise self._error
        return [payload.upper() for payload in batch.payloads][: -1 if self._drop_last else None]

    def finish(self) -> None:
        self._release.set()

    async def started(self, batches: int) -> None:
        async with self._started:
            await self._started.wait_for(lambda: len(self.batches) >= batches)


def call(*, is_gone: bool = False, deadline: float = math.inf) -> Call:
    return Call((), "id", lambda: is_gone, deadline)


def sample(model: ControlledModel, name: str, **labels: str) -> float | None:
    return model.registry.get_sample_value(name, labels)


def queue_for(
    model: ControlledModel,
    limits: BatchLimits = DEFAULTS,
    concurrency: int = 1,
    *,
    alone: Container[str] = (),
    ahead: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> BatchQueue[str, str]:
    model.registry = CollectorRegistry()
    metrics = BatchMetricsRegistry(model.registry).of_model("m")
    return BatchQueue("m", model.run, limits, metrics, concurrency=concurrency, alone=alone, ahead=ahead, clock=clock)


async def submitted(queue: BatchQueue[str, str], *payloads: str, size: int = 1) -> list[asyncio.Task[str]]:
    """Tasks that have got as far as the queue."""
    tasks = [asyncio.ensure_future(queue.submit(payload, size, "key", call())) for payload in payloads]
    await turns_of_the_loop()
    return tasks


async def turns_of_the_loop() -> None:
    """Submit, dispatch, run: each takes one."""
    for _ in range(4):
        await asyncio.sleep(0)
