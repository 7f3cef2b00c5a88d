"""Which requests the queue in front of a model puts together, and when. No clock is waited for."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Collection

import pytest

from data_plane.batching.limits import BatchLimits
from tests.support.batching import ControlledModel, call, queue_for, sample, submitted, turns_of_the_loop


async def test_what_queues_up_while_the_model_is_busy_goes_together() -> None:
    model = ControlledModel()
    queue = queue_for(model)
    first = await submitted(queue, "a")
    later = await submitted(queue, "b", "c", "d")
    model.finish()
    await model.started(2)
    model.finish()

    assert await asyncio.gather(*first, *later) == ["A", "B", "C", "D"]
    assert model.batches == [["a"], ["b", "c", "d"]]
    assert sample(model, "batch_size_requests_sum", model_name="m") == 4


async def test_the_age_of_a_queue_is_that_of_its_oldest_request() -> None:
    model, now, ticks = ControlledModel(), 100.0, itertools.count()
    queue = queue_for(model, clock=lambda: now + next(ticks) / 1e6)

    def age() -> float | None:
        return sample(model, "request_queue_age_seconds", model_name="m")

    assert age() == 0.0
    tasks = await submitted(queue, "a")
    assert age() == 0.0
    tasks += await submitted(queue, "b")
    now += 2.0
    tasks += await submitted(queue, "c")
    now += 1.0
    assert age() == pytest.approx(3.0, abs=0.1)

    model.free = True
    model.finish()
    await asyncio.gather(*tasks)
    assert age() == 0.0
    await turns_of_the_loop()
    model.batch = None  # it refers to its queue
    del queue, tasks
    gc.collect()
    assert age() is None


@pytest.mark.parametrize(
    ("limit", "size", "alone", "batches"),
    [
        (4, 2, (), [["a", "b"], ["c"]]),
        (4, 9, (), [["a"], ["b"], ["c"]]),
        (32, 1, {"key"}, [["a"], ["b"], ["c"]]),
    ],
    ids=["up to the limit", "one larger than the limit alone and whole", "those of some keys never"],
)
async def test_requests_are_merged(limit: int, size: int, alone: Collection[str], batches: list[list[str]]) -> None:
    model = ControlledModel(free=True)
    queue = queue_for(model, BatchLimits(max_batch_size=limit), alone=alone)

    await asyncio.gather(*await submitted(queue, "a", "b", "c", size=size))

    assert model.batches == batches


async def test_requests_with_different_keys_are_never_mixed_and_the_oldest_goes_first() -> None:
    model = ControlledModel()
    queue = queue_for(model)
    tasks = [asyncio.ensure_future(queue.submit("x", 1, "first", call()))]
    await turns_of_the_loop()
    for payload, key in (("a", "one"), ("b", "two"), ("c", "one")):
        tasks.append(asyncio.ensure_future(queue.submit(payload, 1, key, call())))
        await asyncio.sleep(0)
    model.free = True
    model.finish()

    assert await asyncio.gather(*tasks) == ["X", "A", "B", "C"]
    assert model.batches == [["x"], ["a", "c"], ["b"]]


async def test_as_many_batches_run_at_a_time_as_there_are_workers() -> None:
    model = ControlledModel()
    queue = queue_for(model, concurrency=2)
    tasks = await submitted(queue, "a")
    tasks += await submitted(queue, "b")
    tasks += await submitted(queue, "c")
    assert model.batches == [["a"], ["b"]]

    model.free = True
    queue.concurrency = 3
    await model.started(3)
    model.finish()

    assert await asyncio.gather(*tasks) == ["A", "B", "C"]


async def test_a_queue_may_stop_merging_while_it_is_in_use() -> None:
    model = ControlledModel(free=True)
    queue = queue_for(model)
    await asyncio.gather(*await submitted(queue, "a", "b"))

    queue.stop_merging()
    await asyncio.gather(*await submitted(queue, "c", "d"))

    assert model.batches == [["a", "b"], ["c"], ["d"]]
    assert not queue.merging


async def test_a_call_carries_the_times_of_its_stages() -> None:
    now = 100.0
    model = ControlledModel(model_s=0.5)
    queue = queue_for(model, clock=lambda: now)
    (first, *_) = await submitted(queue, "a")
    own = call()
    waiting = asyncio.ensure_future(queue.submit("b", 1, "key", own))
    await turns_of_the_loop()
    now = 101.0
    model.finish()
    await turns_of_the_loop()
    pause = 2**-11  # until the caller who was answered asks again
    now += pause
    (again,) = await submitted(queue, "c")
    now = 102.0
    model.finish()
    await asyncio.gather(first, waiting, again)

    assert own.timings == {"queue": 1.0, "batch": pause, "model": 0.5, "transport": 0.5 - pause}


async def test_a_free_worker_leaves_their_share_to_the_others() -> None:
    model = ControlledModel()
    queue = queue_for(model, concurrency=2)
    first = await submitted(queue, "a")
    second = await submitted(queue, "b")
    waiting = await submitted(queue, *"cdefgh")
    model.free = True
    model.finish()

    assert await asyncio.gather(*first, *second, *waiting) == list("ABCDEFGH")
    # When the first comes free there are seven: the six that wait, and the one that the other still has.
    assert model.batches == [["a"], ["b"], ["c", "d", "e", "f"], ["g", "h"]]


async def test_the_model_is_busy_again_before_the_answers_are_handed_out() -> None:
    model = ControlledModel()
    queue = queue_for(model, clock=lambda: 100.0)  # after a batch that took time, others are given some to join it
    (first,) = await submitted(queue, "a")
    (second,) = await submitted(queue, "b")
    order: list[str] = []
    first.add_done_callback(lambda _: order.append(f"answer a, batches {model.batches}"))
    model.finish()
    await first
    model.finish()

    assert await second == "B"
    assert order == ["answer a, batches [['a'], ['b']]"]


@pytest.mark.parametrize(("model_s", "sent"), [(0.01, [["a"], ["b"], ["c"]]), (1.0, [["a"], ["b"]])])
async def test_the_next_batch_is_sent_ahead_where_batches_are_short(model_s: float, sent: list[list[str]]) -> None:
    model = ControlledModel(model_s=model_s)
    queue = queue_for(model, ahead=True)
    first = await submitted(queue, "a")
    model.finish()
    await asyncio.gather(*first)
    later = [*await submitted(queue, "b"), *await submitted(queue, "c")]

    assert model.batches == sent
    model.free = True
    model.finish()
    await model.started(3)
    model.finish()
    assert await asyncio.gather(*later) == ["B", "C"]


@pytest.mark.parametrize(
    ("pauses", "next_batch"),
    [((0.0019, 0.0009), ["c", "d", "e"]), ((0.0019, 0.0011), ["c", "d"]), ((0.0021, 0.0), ["c"])],
)
async def test_those_who_were_answered_may_ask_again_and_join_those_who_wait(
    pauses: tuple[float, float], next_batch: list[str]
) -> None:
    now = 100.0
    model = ControlledModel(model_s=0.5)
    queue = queue_for(model, clock=lambda: now)
    answered = [*await submitted(queue, "a", "b"), *await submitted(queue, "c")]
    model.finish()
    await turns_of_the_loop()
    assert model.batches == [["a", "b"]]

    for payload, pause in zip("de", pauses, strict=True):
        now += pause
        answered += await submitted(queue, payload)

    assert model.batches == [["a", "b"], next_batch]
    model.free = True
    model.finish()
    await turns_of_the_loop()
    now += 1  # nobody else asks
    assert await asyncio.gather(*answered) == ["A", "B", "C", "D", "E"]


async def test_nobody_is_waited_for_while_another_worker_runs_a_batch() -> None:
    model = ControlledModel(model_s=0.5)
    queue = queue_for(model, concurrency=2, clock=lambda: 100.0)
    requests = [request for payload in "abc" for request in await submitted(queue, payload)]
    assert model.batches == [["a"], ["b"]]

    model.finish()
    await turns_of_the_loop()

    assert model.batches == [["a"], ["b"], ["c"]]
    model.free = True
    for _ in range(2):
        model.finish()
        await turns_of_the_loop()
    assert await asyncio.gather(*requests) == ["A", "B", "C"]
