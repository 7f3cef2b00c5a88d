"""Full queues, and callers whose time is over or who are gone."""

from __future__ import annotations

import asyncio
import time

import pytest

from data_plane.batching.limits import BatchLimits
from data_plane.errors import ClientGone, DeadlineExceeded, QueueFull
from data_plane.model import Call
from tests.support.batching import ControlledModel, call, queue_for, sample, submitted, turns_of_the_loop


async def test_a_full_queue_refuses_more() -> None:
    model = ControlledModel()
    queue = queue_for(model, BatchLimits(queue_size=1))
    tasks = await submitted(queue, "running")
    tasks += await submitted(queue, "waiting")

    with pytest.raises(QueueFull, match="1 requests wait for model m already"):
        await queue.submit("refused", 1, "key", call())

    model.free = True
    model.finish()
    assert await asyncio.gather(*tasks) == ["RUNNING", "WAITING"]
    assert sample(model, "requests_rejected_total", model_name="m") == 1


async def test_requests_past_their_deadlines_make_room_for_others() -> None:
    model = ControlledModel()
    queue = queue_for(model, BatchLimits(queue_size=2))
    running = await submitted(queue, "running")
    late = [asyncio.ensure_future(queue.submit("late", 1, "key", call(deadline=time.monotonic()))) for _ in range(2)]
    assert [type(error) for error in await asyncio.gather(*late, return_exceptions=True)] == [DeadlineExceeded] * 2

    taken = await submitted(queue, "taken")

    assert queue.waiting == 1
    model.free = True
    model.finish()
    assert await asyncio.gather(*running, *taken) == ["RUNNING", "TAKEN"]
    assert model.batches == [["running"], ["taken"]]


async def test_in_a_full_queue_those_who_hung_up_make_room_for_others() -> None:
    model = ControlledModel()
    now = 100.0
    queue = queue_for(model, BatchLimits(queue_size=1), clock=lambda: now)
    running = await submitted(queue, "running")
    first_gone = asyncio.ensure_future(queue.submit("gone", 1, "key", call(is_gone=True)))
    await turns_of_the_loop()
    second_gone = asyncio.ensure_future(queue.submit("gone too", 1, "key", call(is_gone=True)))
    await turns_of_the_loop()

    with pytest.raises(QueueFull):  # all were looked at a moment ago
        await queue.submit("refused", 1, "key", call())
    now += 1
    taken = await submitted(queue, "taken")

    model.free = True
    model.finish()
    await turns_of_the_loop()
    now += 1  # nobody else asks
    assert await asyncio.gather(*running, *taken) == ["RUNNING", "TAKEN"]
    for gone in (first_gone, second_gone):
        with pytest.raises(ClientGone):
            await gone
    assert sample(model, "requests_abandoned_total", model_name="m") == 2


async def test_a_request_past_its_deadline_is_answered_and_never_run() -> None:
    model = ControlledModel()
    queue = queue_for(model, BatchLimits(timeout_s=0.2))
    (running,) = await submitted(queue, "a")
    (late,) = await submitted(queue, "b")

    with pytest.raises(DeadlineExceeded, match=r"Model m did not answer within 0\.2 s\."):
        await late
    with pytest.raises(DeadlineExceeded):
        await running
    model.finish()
    await queue.drained()
    assert model.batches == [["a"]]


async def test_a_batch_is_wanted_until_the_last_of_its_callers_is_gone() -> None:
    model, hung_up = ControlledModel(), asyncio.Event()
    queue = queue_for(model)
    (first,) = await submitted(queue, "a")
    gone = asyncio.ensure_future(queue.submit("b", 1, "key", Call((), "id", hung_up.is_set)))
    (waiting,) = await submitted(queue, "c")
    model.finish()
    await model.started(2)
    batch = model.batch
    assert batch is not None

    assert (batch.payloads, batch.is_wanted()) == (["b", "c"], True)
    hung_up.set()
    assert batch.is_wanted()
    waiting.cancel()
    await turns_of_the_loop()
    assert not batch.is_wanted()

    model.finish()
    assert await first == "A"
    with pytest.raises(ClientGone):
        await gone
