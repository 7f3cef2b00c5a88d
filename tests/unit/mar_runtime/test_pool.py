"""Who has a place in a running batch, on workers that a test speaks for."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from data_plane.errors import ClientGone
from mar_runtime.pool.process_pool import ProcessPool
from mar_runtime.pool.worker_pool import PoolPolicy
from mar_runtime.worker.spec import HandlerSpec
from torchserve_compat.frames import HandlerBatch, HandlerRequest, HandlerResponse, HandlerResult, encode

SPEC = HandlerSpec(
    model="m", folder="/models/m", handler="handler.py", envelope="none", batch_size=2, threads=1, gpu=None,
    packages=None, limit_max_image_pixels=True, continuous=True,
)  # fmt: skip
BATCH = HandlerBatch("raw", [HandlerRequest("1", (), [])])
RESULT = HandlerResult([HandlerResponse(b"")], 0.0)


class Worker:
    """Each frame is answered when a test says how."""

    pid, gpu, is_ending = 1, None, False

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[bytes]] = []
        self.served = 0
        self.is_retired = False

    @property
    def pending(self) -> int:
        return sum(not one.done() for one in self.asked)

    async def send(self, frame: bytes, timeout_s: float, on_piece: object) -> bytes:
        self.served += 1
        self.asked.append(asyncio.get_running_loop().create_future())
        return await self.asked[-1]

    def retire(self) -> None:
        self.is_retired = True


def pool(*workers: Worker) -> ProcessPool:
    made = ProcessPool(
        cast(Any, None), SPEC, PoolPolicy(),
        archive="m.mar", gpus=(), on_result=lambda *_: None, on_failure=lambda _: None,
    )  # fmt: skip
    made._workers.extend(cast(Any, workers))
    return made


def sending(to: ProcessPool) -> asyncio.Task[HandlerResult]:
    return asyncio.get_running_loop().create_task(to.send(BATCH, lambda: True, lambda _: True))


async def test_a_place_that_a_client_leaves_is_for_the_one_that_waits() -> None:
    worker = Worker()
    served = pool(worker)
    tasks = [sending(served) for _ in range(3)]
    await asyncio.sleep(0)
    assert worker.pending == SPEC.batch_size

    worker.asked[0].set_exception(ClientGone())
    with pytest.raises(ClientGone):
        await tasks[0]
    await asyncio.sleep(0)

    assert worker.pending == SPEC.batch_size
    for asked in worker.asked[1:]:
        asked.set_result(encode(RESULT))
    assert await asyncio.gather(*tasks[1:]) == [RESULT, RESULT]


async def test_requests_go_to_the_worker_with_the_smallest_batch() -> None:
    workers = Worker(), Worker()
    served = pool(*workers)
    tasks = [sending(served) for _ in range(4)]
    await asyncio.sleep(0)

    assert [worker.pending for worker in workers] == [2, 2]
    for task in tasks:
        task.cancel()


async def test_a_worker_that_is_replaced_ends_when_the_last_of_its_batch_has_left() -> None:
    worker = Worker()
    served = pool(worker)
    task = sending(served)
    await asyncio.sleep(0)
    served._replacing[cast(Any, worker)] = True

    worker.asked[0].set_exception(ClientGone())
    with pytest.raises(ClientGone):
        await task

    assert worker.is_retired
