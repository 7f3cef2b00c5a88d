"""The work queue: what runs when, how often, and after how long. The clock is the test's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from isvc_operator.controller.worker import Reconciled, Worker
from isvc_operator.errors import InvalidSpec, Unexpected
from isvc_operator.kube.errors import KubeError, NotOurs, NotPermitted, RequestRefused
from isvc_operator.limits import LONGEST_BACKOFF_SECONDS, RETRIES_PER_SECOND
from isvc_operator.manifests import ServiceKey
from isvc_operator.telemetry.logs import LogFormatter
from isvc_operator.telemetry.snapshot import QueueState, Result
from tests.support.fakes import Seconds

A, B, C = (ServiceKey("models", name) for name in "abc")


@dataclass
class Work:
    """A reconcile that a test blocks, releases or lets fail; it records what was started and what has ended."""

    started: list[ServiceKey] = field(default_factory=list)
    ended: list[ServiceKey] = field(default_factory=list)
    held: dict[ServiceKey, asyncio.Event] = field(default_factory=dict)
    errors: dict[ServiceKey, Exception] = field(default_factory=dict)
    again: dict[ServiceKey, float] = field(default_factory=dict)
    failures: list[int] = field(default_factory=list)

    async def __call__(self, key: ServiceKey, failures: int) -> float | None:
        self.started.append(key)
        self.failures.append(failures)
        if gate := self.held.get(key):
            await gate.wait()
        self.ended.append(key)
        if error := self.errors.get(key):
            raise error
        return self.again.pop(key, None)

    def hold(self, key: ServiceKey) -> asyncio.Event:
        self.held[key] = asyncio.Event()
        return self.held[key]


@asynccontextmanager
async def running(
    work: Work,
    parallel: int = 4,
    *,
    clock: Seconds | None = None,
    reconciled: Reconciled = lambda _result, _seconds: None,
    random: float = 0.0,
) -> AsyncIterator[Worker]:
    worker = Worker(work, parallel, clock=clock or Seconds(), reconciled=reconciled, random=lambda: random)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def settled() -> None:
    """Let every task go on until all of them wait for something."""
    for _ in range(20):
        await asyncio.sleep(0)


@dataclass
class Timers:
    """The calls that were scheduled on the event loop, and after how many seconds."""

    calls: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    @property
    def delays(self) -> list[float]:
        return [delay for delay, _ in self.calls]

    def ring(self) -> None:
        """Let the latest timer go off."""
        self.calls[-1][1]()


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    timers = Timers()

    def call_later(
        loop: asyncio.BaseEventLoop, delay: float, callback: Callable[..., None], *args: object
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(loop.time() + delay, callback, args, loop)
        timers.calls.append((delay, lambda: None if handle.cancelled() else callback(*args)))
        return handle

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_later", call_later)
    return timers


async def test_no_more_keys_are_worked_on_at_a_time_than_allowed() -> None:
    work = Work()
    gates = [work.hold(key) for key in (A, B, C)]
    async with running(work, parallel=2) as worker:
        for key in (A, B, C):
            worker.add(key)
        await settled()
        assert work.started == [A, B]
        gates[0].set()
        await settled()
        assert work.started == [A, B, C]


async def test_a_key_added_while_it_is_worked_on_is_worked_on_once_more_and_never_twice_at_a_time() -> None:
    work = Work()
    gate = work.hold(A)
    async with running(work) as worker:
        worker.add(A)
        await settled()
        worker.add(A)
        worker.add(A)
        await settled()
        assert work.started == [A]
        gate.set()
        await settled()

    assert work.ended == [A, A]


@pytest.mark.parametrize("error", [InvalidSpec("no model"), RuntimeError("a bug")], ids=["known", "unexpected"])
async def test_a_failure_is_logged_retried_later_and_stops_no_other_key(
    error: Exception, timers: Timers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caplog.handler, "formatter", LogFormatter())
    work = Work(errors={A: error})
    async with running(work, parallel=1) as worker:
        worker.add(A)
        worker.add(B)
        await settled()
        assert work.ended == [A, B]
        assert timers.delays == [0.5]
        assert "models/a: " in caplog.text
        timers.ring()
        await settled()

    assert work.ended == [A, B, A]


async def test_only_an_unexpected_failure_is_logged_with_its_traceback(
    timers: Timers, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(errors={A: InvalidSpec("no model"), B: RuntimeError("a bug")})
    async with running(work) as worker:
        worker.add(A)
        worker.add(B)
        await settled()

    assert [(record.levelno, record.exc_info is not None) for record in caplog.records] == [
        (logging.WARNING, False),
        (logging.ERROR, True),
    ]


async def test_the_wait_doubles_up_to_a_minute_and_starts_anew_after_a_success(timers: Timers) -> None:
    work = Work(errors={A: InvalidSpec("no model")})
    async with running(work) as worker:
        worker.add(A)
        await settled()
        for _ in range(8):
            timers.ring()
            await settled()
        assert timers.delays == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]

        error = work.errors.pop(A)
        timers.ring()
        await settled()
        work.errors[A] = error
        worker.add(A)
        await settled()

    assert timers.delays[-1] == 0.5
    assert len(timers.delays) == 10


@pytest.mark.parametrize(("random", "delay"), [(0.0, 0.5), (0.5, 0.375), (1.0, 0.25)])
async def test_services_that_fail_together_are_not_retried_together(
    random: float, delay: float, timers: Timers
) -> None:
    async with running(Work(errors={A: InvalidSpec("no model")}), random=random) as worker:
        worker.add(A)
        await settled()

    assert timers.delays == [delay]


@pytest.mark.parametrize("random", [0.0, 1.0])
async def test_no_service_is_retried_before_the_time_that_the_api_server_has_requested(
    random: float, timers: Timers
) -> None:
    async with running(Work(errors={A: KubeError(429, "overloaded", 7.0)}), random=random) as worker:
        worker.add(A)
        await settled()

    assert timers.delays == [7.0]


async def test_the_more_services_fail_the_less_often_each_one_is_retried(timers: Timers) -> None:
    many = [ServiceKey("models", str(number)) for number in range(100)]
    async with running(Work(errors=dict.fromkeys(many, KubeError(500, "overloaded")))) as worker:
        for key in many:
            worker.add(key)
        await settled()

    assert (timers.delays[0], timers.delays[-1]) == (0.5, 100 / RETRIES_PER_SECOND)


async def test_however_many_services_fail_each_one_is_retried_within_a_minute(timers: Timers) -> None:
    many = [ServiceKey("models", str(number)) for number in range(2000)]
    async with running(Work(errors=dict.fromkeys(many, KubeError(500, "overloaded")))) as worker:
        for key in many:
            worker.add(key)
        for _ in range(50):
            await settled()

    assert (len(timers.delays), max(timers.delays)) == (2000, LONGEST_BACKOFF_SECONDS)


async def test_an_attempt_gets_the_number_of_failures_since_the_last_success(timers: Timers) -> None:
    work = Work(errors={A: InvalidSpec("no model")})
    async with running(work) as worker:
        worker.add(A)
        await settled()
        timers.ring()
        await settled()
        error = work.errors.pop(A)
        timers.ring()
        await settled()
        work.errors[A] = error
        worker.add(A)
        worker.add(B)
        await settled()

    assert work.failures == [0, 1, 2, 0, 0]


async def test_a_change_does_not_wait_for_the_next_try_and_takes_its_place(timers: Timers) -> None:
    work = Work(errors={A: InvalidSpec("no model")})
    async with running(work) as worker:
        worker.add(A)
        await settled()
        del work.errors[A]
        worker.add(A)
        await settled()
        timers.ring()
        await settled()

    assert work.ended == [A, A]


async def test_a_change_during_a_failing_attempt_is_worked_on_at_once(timers: Timers) -> None:
    work = Work(errors={A: InvalidSpec("no model")})
    gate = work.hold(A)
    async with running(work) as worker:
        worker.add(A)
        await settled()
        worker.add(A)
        gate.set()
        await settled()
        assert work.ended == [A, A]
        assert timers.delays == [0.5, 1]


async def test_a_key_is_requeued_after_the_returned_time(timers: Timers) -> None:
    work = Work(again={A: 2.0})
    async with running(work) as worker:
        worker.add(A)
        await settled()
        assert (work.ended, timers.delays) == ([A], [2.0])
        timers.ring()
        await settled()

    assert (work.ended, timers.delays) == ([A, A], [2.0])


# --- what is reported of the queue ----------------------------------------------------------------------------------


async def test_the_state_of_the_queue_tells_who_has_waited_and_worked_for_how_long() -> None:
    clock, work = Seconds(), Work()
    gate = work.hold(A)
    async with running(work, parallel=1, clock=clock) as worker:
        assert worker.state() == QueueState()
        worker.add(A)
        await settled()
        clock.passed = 10.0
        worker.add(B)
        clock.passed = 15.0
        worker.add(C)
        worker.add(B)
        clock.passed = 20.0
        assert worker.state() == QueueState(waiting=2, oldest=10.0, running=1, longest=20.0, still=10.0)
        gate.set()
        await settled()

        assert worker.state() == QueueState()


async def test_an_empty_queue_does_not_stand_still_however_long_a_reconcile_takes() -> None:
    clock, work = Seconds(), Work()
    work.hold(A)
    async with running(work, clock=clock) as worker:
        worker.add(A)
        await settled()
        clock.passed = 1000.0

        assert worker.state() == QueueState(running=1, longest=1000.0)


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (None, Result.SUCCESS),
        (InvalidSpec("no model"), Result.REFUSED),
        (RequestRefused(403, "exceeded quota"), Result.REFUSED),
        (NotOurs(409, "it has no owner"), Result.REFUSED),
        (NotPermitted(403, 'User "isvc-operator" cannot create deployments'), Result.ERROR),
        (KubeError(500, "etcd"), Result.ERROR),
        (Unexpected("a bug, which the status names"), Result.UNEXPECTED),
        (RuntimeError("a bug"), Result.UNEXPECTED),
    ],
    ids=[
        "success",
        "a spec",
        "a quota",
        "an object of others",
        "a permission",
        "the API server",
        "in the status",
        "unexpected",
    ],
)
async def test_each_reconcile_is_reported_with_its_result_and_duration(
    error: Exception | None, result: Result, timers: Timers
) -> None:
    clock, work = Seconds(), Work(errors={A: error} if error else {})
    gate, reported = work.hold(A), list[tuple[Result, float]]()
    async with running(work, clock=clock, reconciled=lambda *of: reported.append(of)) as worker:
        worker.add(A)
        await settled()
        clock.passed = 3.0
        gate.set()
        await settled()

    assert reported == [(result, 3.0)]


async def test_at_a_stop_what_is_in_hand_is_finished_and_nothing_else_is_begun() -> None:
    work = Work()
    gate = work.hold(A)
    worker = Worker(work, parallel=2)
    ran = asyncio.create_task(worker.run())
    worker.add(A)
    await settled()
    worker.stop()
    worker.add(B)
    await settled()
    before = ran.done()
    gate.set()
    await ran

    assert (before, work.started, work.ended) == (False, [A], [A])


# --- keys that are added together ------------------------------------------------------------------------

MANY = [ServiceKey("many", str(number)) for number in range(20)]


async def test_a_single_key_does_not_wait_for_many() -> None:
    work = Work()
    gates = [work.hold(key) for key in MANY]
    async with running(work, parallel=2) as worker:
        worker.add_many(MANY)
        await settled()
        assert worker.state().waiting == len(MANY) - 2
        worker.add(A)
        for gate in gates[:3]:
            gate.set()
        await settled()

    assert work.started.index(A) <= 4


async def test_many_keys_are_each_reconciled_once() -> None:
    work = Work()
    async with running(work, parallel=3) as worker:
        worker.add_many([*MANY, *MANY])
        worker.add(MANY[-1])
        await settled()

    assert sorted(work.started) == sorted(MANY)
