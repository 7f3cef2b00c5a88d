"""Batches that fail: who gets which answer, and what is run again."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.batching.limits import BatchLimits
from data_plane.errors import ClientGone, InferenceFailed, NotReady, UpstreamTimeout
from data_plane.model import Call
from tests.support.batching import ControlledModel, call, queue_for, submitted


async def test_a_batch_is_answered_whose_worker_was_lost_behind_it() -> None:
    model = ControlledModel()
    queue = queue_for(model)
    (request,) = await submitted(queue, "a")
    queue.concurrency = 0

    model.finish()

    assert await request == "A"


async def test_requests_that_wait_for_a_worker_are_refused_when_there_will_be_none() -> None:
    model = ControlledModel()
    queue = queue_for(model, concurrency=0)
    waiting = await submitted(queue, "a", "b")

    queue.refuse(NotReady("no worker any more"))

    results = await asyncio.gather(*waiting, *await submitted(queue, "c"), return_exceptions=True)
    assert [(type(one), str(one)) for one in results] == [(NotReady, "no worker any more")] * 3
    assert (queue.waiting, model.batches) == (0, [])
    await queue.drained()


async def test_a_queue_that_refuses_still_runs_what_the_remaining_workers_can_take() -> None:
    model = ControlledModel()
    queue = queue_for(model, concurrency=1)
    running, waiting = await submitted(queue, "a"), await submitted(queue, "b")

    queue.refuse(NotReady("no worker any more"))
    queue.concurrency = 0  # the last worker is gone, too

    with pytest.raises(NotReady):
        await waiting[0]
    model.finish()
    assert await running[0] == "A"


async def test_a_batch_that_took_too_long_is_not_run_again() -> None:
    model = ControlledModel(free=True, bad={"b"}, error=UpstreamTimeout("too long"))

    answers = await asyncio.gather(*await submitted(queue_for(model), "a", "b"), return_exceptions=True)

    assert [type(answer) for answer in answers] == [UpstreamTimeout, UpstreamTimeout]
    assert model.batches == [["a", "b"]]


async def test_of_a_batch_that_fails_those_who_hung_up_are_not_run_again() -> None:
    model, hung_up = ControlledModel(bad={"bad"}), asyncio.Event()
    queue = queue_for(model)
    tasks = await submitted(queue, "first")
    gone = asyncio.ensure_future(queue.submit("gone", 1, "key", Call((), "id", hung_up.is_set)))
    tasks += await submitted(queue, "bad", "b")
    model.finish()
    await model.started(2)
    hung_up.set()
    model.free = True
    model.finish()

    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert (answers[0], answers[2]) == ("FIRST", "B")
    with pytest.raises(ClientGone):
        await gone
    assert model.batches == [["first"], ["gone", "bad", "b"], ["bad"], ["b"]]


async def test_results_that_are_too_few_are_an_error_and_never_anothers() -> None:
    model = ControlledModel(free=True, drop_last=True)

    answers = await asyncio.gather(*await submitted(queue_for(model), "a", "b"), return_exceptions=True)

    assert [str(answer) for answer in answers] == ["1 requests went to the model, 0 results came back."] * 2


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 7), min_size=1, max_size=60),
    limit=st.integers(1, 9),
    latency_s=st.none() | st.just(60.0),
    workers=st.integers(1, 3),
    bad=st.sets(st.integers(0, 59)),
)
def test_every_caller_gets_its_own_answer(
    sizes: list[int], limit: int, latency_s: float | None, workers: int, bad: set[int]
) -> None:
    async def scenario() -> None:
        model = ControlledModel(free=True, bad={str(number) for number in bad})
        queue = queue_for(model, BatchLimits(max_batch_size=limit, max_latency_s=latency_s), workers)
        tasks = [
            asyncio.ensure_future(queue.submit(str(number), size, number % 2, call()))
            for number, size in enumerate(sizes)
        ]
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        for number, answer in enumerate(answers):
            assert isinstance(answer, InferenceFailed) if number in bad else answer == str(number)
        assert queue.waiting == 0

    asyncio.run(scenario())


async def test_nothing_is_learnt_from_a_batch_that_did_not_run() -> None:
    """What it took is what a worker's restart takes, and running its requests one by one."""
    now = 0.0
    model = ControlledModel(bad={"bad"})
    queue = queue_for(model, BatchLimits(max_batch_size=8, max_latency_s=1.0), clock=lambda: now)
    (first,) = await submitted(queue, "a", size=8)
    now = 0.5
    model.finish()
    await first
    (failed,) = await submitted(queue, "bad", size=8)
    now = 100.0
    model.finish()
    await asyncio.gather(failed, return_exceptions=True)

    (busy,) = await submitted(queue, "b", size=8)
    together = await submitted(queue, *"cdef")
    model.free = True
    model.finish()
    await asyncio.gather(busy, *together)

    assert model.batches[2:] == [["b"], ["c", "d", "e", "f"]]
