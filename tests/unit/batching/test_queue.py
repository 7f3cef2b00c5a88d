"""The queue in front of a model, with a model that is run by the test. No clock is waited for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from tests.support.batching import ControlledModel, call, sample
from transformer_sdk.batching.limits import BatchLimits
from transformer_sdk.batching.metrics import BatchMetricsRegistry
from transformer_sdk.batching.queue import Batch, BatchQueue
from transformer_sdk.errors import (
    ClientGone,
    DeadlineExceeded,
    InferenceFailed,
    QueueFull,
    ServingError,
    UpstreamBroken,
    UpstreamTimeout,
)
from transformer_sdk.model import Call

DEFAULTS = BatchLimits()


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
    return BatchQueue("m", model.run, limits, metrics, concurrency, alone=alone, ahead=ahead, clock=clock)


async def submitted(queue: BatchQueue[str, str], *payloads: str, size: int = 1) -> list[asyncio.Task[str]]:
    """Tasks that have got as far as the queue."""
    tasks = [asyncio.ensure_future(queue.submit(payload, size, "key", call())) for payload in payloads]
    await turns_of_the_loop()
    return tasks


async def turns_of_the_loop() -> None:
    """Submit, dispatch, run: each takes one."""
    for _ in range(4):
        await asyncio.sleep(0)


async def test_a_request_goes_at_once_when_the_model_is_free() -> None:
    model = ControlledModel()
    (request,) = await submitted(queue_for(model), "a")

    assert model.batches == [["a"]]
    model.finish()
    assert await request == "A"


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


async def test_a_batch_has_no_more_instances_than_the_limit() -> None:
    model = ControlledModel(free=True)
    queue = queue_for(model, BatchLimits(max_batch_size=4))

    await asyncio.gather(*await submitted(queue, "a", "b", "c", size=2))

    assert model.batches == [["a", "b"], ["c"]]


async def test_a_request_larger_than_the_limit_is_run_alone_and_whole() -> None:
    model = ControlledModel(free=True)
    queue = queue_for(model, BatchLimits(max_batch_size=4))

    await asyncio.gather(*await submitted(queue, "a", "b", size=9))

    assert model.batches == [["a"], ["b"]]


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


async def test_a_batch_is_answered_whose_worker_was_lost_behind_it() -> None:
    model = ControlledModel()
    queue = queue_for(model)
    (request,) = await submitted(queue, "a")
    queue.concurrency = 0

    model.finish()

    assert await request == "A"


async def test_of_a_batch_that_fails_only_the_bad_request_fails() -> None:
    model = ControlledModel(free=True, bad={"b"})
    queue = queue_for(model)

    answers = await asyncio.gather(*await submitted(queue, "a", "b", "c"), return_exceptions=True)

    assert answers[0::2] == ["A", "C"]
    assert isinstance(answers[1], InferenceFailed)
    assert model.batches == [["a", "b", "c"], ["a"], ["b"], ["c"]]
    assert sample(model, "batches_retried_total", model_name="m") == 1


async def test_of_a_batch_whose_worker_died_only_the_fatal_request_fails() -> None:
    model = ControlledModel(free=True, bad={"b"}, error=UpstreamBroken("the worker died"))

    answers = await asyncio.gather(*await submitted(queue_for(model), "a", "b", "c"), return_exceptions=True)

    assert answers[0::2] == ["A", "C"]
    assert isinstance(answers[1], UpstreamBroken)
    assert model.batches == [["a", "b", "c"], ["a"], ["b"], ["c"]]


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


async def test_a_request_may_fail_alone_in_a_batch_that_does_not() -> None:
    async def run(batch: Batch[str]) -> Sequence[str | ServingError]:
        return [InferenceFailed("no") if payload == "b" else payload for payload in batch.payloads]

    queue = BatchQueue("m", run, BatchLimits(), BatchMetricsRegistry(CollectorRegistry()).of_model("m"))

    answers = await asyncio.gather(*await submitted(queue, "a", "b"), return_exceptions=True)

    assert (answers[0], str(answers[1])) == ("a", "no")


async def test_results_that_are_too_few_are_an_error_and_never_anothers() -> None:
    model = ControlledModel(free=True, drop_last=True)

    answers = await asyncio.gather(*await submitted(queue_for(model), "a", "b"), return_exceptions=True)

    assert [str(answer) for answer in answers] == ["1 requests went to the model, 0 results came back."] * 2


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


async def test_requests_whose_tasks_are_cancelled_make_room_for_others() -> None:
    model = ControlledModel()
    queue = queue_for(model, BatchLimits(queue_size=2))
    running = await submitted(queue, "running")
    for task in await submitted(queue, "b", "c"):
        task.cancel()
    await turns_of_the_loop()

    taken = await submitted(queue, "taken")

    assert queue.waiting == 1
    model.free = True
    model.finish()
    assert await asyncio.gather(*running, *taken) == ["RUNNING", "TAKEN"]
    assert sample(model, "requests_abandoned_total", model_name="m") == 2


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
    queue = queue_for(model, BatchLimits(timeout_s=0.02))
    (running,) = await submitted(queue, "a")
    (late,) = await submitted(queue, "b")

    with pytest.raises(DeadlineExceeded, match="Model m did not answer within"):
        await late
    with pytest.raises(DeadlineExceeded):
        await running
    model.finish()
    await queue.drained()
    assert model.batches == [["a"]]


async def test_a_request_whose_client_hung_up_is_never_run() -> None:
    model = ControlledModel()
    queue = queue_for(model)
    (running,) = await submitted(queue, "a")
    gone = asyncio.ensure_future(queue.submit("b", 1, "key", call(is_gone=True)))
    (waiting,) = await submitted(queue, "c")
    model.free = True
    model.finish()

    assert [await running, await waiting] == ["A", "C"]
    with pytest.raises(ClientGone):
        await gone
    assert model.batches == [["a"], ["c"]]
    assert sample(model, "requests_abandoned_total", model_name="m") == 1


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


async def test_without_merging_every_request_is_a_batch() -> None:
    model = ControlledModel(free=True)
    queue = queue_for(model)
    queue.merging = False

    await asyncio.gather(*await submitted(queue, "a", "b", "c"))

    assert model.batches == [["a"], ["b"], ["c"]]


async def test_requests_of_some_keys_are_never_merged() -> None:
    model = ControlledModel(free=True)
    queue = queue_for(model, alone={"row"})

    asked = [queue.submit(payload, 1, key, call()) for payload, key in zip("abcd", ("row", "key") * 2, strict=True)]
    await asyncio.gather(*asked)

    assert model.batches == [["a"], ["b", "d"], ["c"]]


async def test_nobody_is_waited_for_after_a_request_that_is_never_merged() -> None:
    model = ControlledModel(model_s=0.5)
    queue = queue_for(model, clock=lambda: 100.0, alone={"key"})
    requests = await submitted(queue, "a", "b")

    model.finish()
    await turns_of_the_loop()

    assert model.batches == [["a"], ["b"]]
    model.finish()
    assert await asyncio.gather(*requests) == ["A", "B"]


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
    queue = queue_for(model)
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
    [
        ((0.0019, 0.0009), ["c", "d", "e"]),
        ((0.0019, 0.0011), ["c", "d"]),
        ((0.0021, 0.0), ["c"]),
    ],
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


async def test_nobody_is_waited_for_where_every_request_is_a_batch() -> None:
    model = ControlledModel(model_s=0.5)
    queue = queue_for(model, clock=lambda: 100.0)
    queue.merging = False
    requests = await submitted(queue, "a", "b")
    assert model.batches == [["a"]]

    model.finish()
    await turns_of_the_loop()

    assert model.batches == [["a"], ["b"]]
    model.finish()
    assert await asyncio.gather(*requests) == ["A", "B"]


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
