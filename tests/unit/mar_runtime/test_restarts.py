"""When workers that died are started anew, and when their model is given up; the clock is the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from data_plane.model_server.errors import ModelFailed
from mar_runtime.limits import MAX_DEATHS, MAX_RESTART_PAUSE, MAX_START_TRIES_TIME, RESTART_GROWTH, RESTART_PAUSE
from mar_runtime.pool import process_pool
from mar_runtime.pool.forkserver import workers_context
from mar_runtime.pool.process_pool import NotStarted, ProcessPool
from mar_runtime.pool.restarts import Restarts
from mar_runtime.pool.worker_pool import PoolPolicy, WorkerTimeout
from mar_runtime.pool.worker_process import CannotStart, WorkerDied, WorkerProcess
from mar_runtime.worker.spec import HandlerSpec
from torchserve_compat.frames import HandlerBatch

PAUSES = [RESTART_PAUSE * RESTART_GROWTH**number for number in range(MAX_DEATHS - 1)]


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def after(clock: Clock, *steps: Callable[[], float | None]) -> list[float | None]:
    """The pauses after each of these, when each is waited for."""
    pauses = []
    for step in steps:
        pauses.append(step())
        clock.now += pauses[-1] or 0
    return pauses


def test_each_pause_is_longer_until_there_is_no_point(clock: Clock) -> None:
    restarts = Restarts(clock)

    assert after(clock, *[restarts.after_death] * MAX_DEATHS) == [*map(pytest.approx, PAUSES), None]


def test_an_answer_begins_anew(clock: Clock) -> None:
    restarts = Restarts(clock)
    after(clock, *[restarts.after_death] * (MAX_DEATHS - 1))

    restarts.responded()

    assert after(clock, restarts.after_death) == [pytest.approx(PAUSES[0])]


def test_those_that_die_together_count_once_and_are_started_together(clock: Clock) -> None:
    restarts = Restarts(clock)

    assert {restarts.after_death() for _ in range(2 * MAX_DEATHS)} == {PAUSES[0]}
    clock.now += PAUSES[0] / 2
    assert restarts.after_death() == PAUSES[0] / 2


def test_what_cannot_be_started_is_tried_again_for_long_with_bounded_pauses(clock: Clock) -> None:
    restarts = Restarts(clock)

    pauses: list[float | None] = []
    while None not in pauses:
        pauses += after(clock, restarts.after_failed_start)

    assert pauses[:3] == [*map(pytest.approx, PAUSES[:3])]
    assert max(pause or 0 for pause in pauses) == MAX_RESTART_PAUSE
    assert MAX_START_TRIES_TIME <= clock.now < MAX_START_TRIES_TIME + MAX_RESTART_PAUSE


def test_a_start_begins_anew(clock: Clock) -> None:
    restarts = Restarts(clock)
    after(clock, *[restarts.after_failed_start] * 10)

    restarts.started()
    clock.now += MAX_START_TRIES_TIME

    assert restarts.after_failed_start() == RESTART_PAUSE


@dataclass(eq=False)
class FakeWorker:
    """Dies when the test says so, and answers nothing."""

    gpu: int | None = None
    pid: int = 1
    pending: int = 0
    is_ending: bool = False
    gone: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def die(self) -> None:
        self.gone.set_result("it was ended by SIGKILL")

    async def send(self, *_: object) -> bytes:
        raise TimeoutError

    def kill(self) -> None:
        self.die()

    async def end(self) -> None:
        if not self.gone.done():
            self.die()


@dataclass
class Pool:
    """A pool of fakes: `outcomes` are those of the starts to come, a worker where none is left."""

    clock: Clock
    outcomes: list[Exception] = field(default_factory=list)
    started: list[FakeWorker] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    failed: list[BaseException] = field(default_factory=list)

    async def start_worker(self, *_: Any) -> FakeWorker:
        if self.outcomes:
            raise self.outcomes.pop(0)
        self.started.append(FakeWorker())
        return self.started[-1]

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)
        self.clock.now += seconds

    async def begin(self, workers: int) -> ProcessPool:
        spec = HandlerSpec("m", "", "h.py", "kserve", 1, 1, None, None, True)
        begun = ProcessPool(
            workers_context(cuda=False), spec, PoolPolicy(workers),
            archive="m.mar", gpus=(), on_result=lambda *_: None, on_failure=self.failed.append,
            clock=self.clock, pause=self.pause,
        )  # fmt: skip
        await begun.start()
        return begun

    async def settle(self) -> None:
        """What follows from what has happened is done."""
        for _ in range(1000):
            await asyncio.sleep(0)


@pytest.fixture
def pool(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Pool:
    faked = Pool(clock)
    monkeypatch.setattr(process_pool.WorkerProcess, "start", faked.start_worker)
    return faked


async def test_workers_that_keep_dying_are_given_up(pool: Pool) -> None:
    begun = await pool.begin(1)
    pool.outcomes = [WorkerDied("it exited with code 1") for _ in range(MAX_DEATHS)]

    pool.started[0].die()
    await pool.settle()

    assert pool.pauses == [*map(pytest.approx, PAUSES)]
    assert [type(error) for error in pool.failed] == [ModelFailed]
    await begun.close()


async def test_a_worker_that_dies_while_it_loads_its_handler_ends_the_start_with_how(pool: Pool) -> None:
    pool.outcomes = [WorkerDied("it exited with code 3; let the handler raise an exception instead")]

    with pytest.raises(ModelFailed) as raised:
        await pool.begin(1)

    assert str(raised.value) == (
        "The worker of model m (m.mar) died while it loaded its handler: it exited with code 3; let the handler raise "
        "an exception instead."
    )
    mended = await pool.begin(1)  # its handler ends no process any more
    assert len(pool.started) == 1
    await mended.close()


async def test_workers_that_do_not_answer_in_time_are_given_up_with_the_setting(pool: Pool) -> None:
    begun = await pool.begin(1)

    for _ in range(MAX_DEATHS):
        with pytest.raises(WorkerTimeout):
            await begun.send(HandlerBatch("raw", []), lambda: True, lambda _: True)
        await pool.settle()

    assert [str(error) for error in pool.failed] == [
        "The worker of model m (m.mar) died 5 times in a row; the last time it did not answer within 120 s "
        "(responseTimeout); raise it, or let the handler do less."
    ]
    await begun.close()


async def test_all_of_many_workers_may_die_at_once(pool: Pool) -> None:
    begun = await pool.begin(2 * MAX_DEATHS)

    for worker in [*pool.started]:
        worker.die()
    await pool.settle()

    assert (len(pool.started), pool.failed) == (4 * MAX_DEATHS, [])
    await begun.close()


async def test_while_files_are_short_a_worker_is_tried_again(pool: Pool) -> None:
    begun = await pool.begin(1)
    pool.outcomes = [CannotStart("[Errno 24] Too many open files")] * 2 * MAX_DEATHS

    pool.started[0].die()
    await pool.settle()

    assert (len(pool.started), len(pool.pauses), pool.failed) == (2, 1 + 2 * MAX_DEATHS, [])
    await begun.close()


async def test_not_for_ever(pool: Pool) -> None:
    begun = await pool.begin(1)
    pool.outcomes = [CannotStart("[Errno 24] Too many open files")] * 1000

    pool.started[0].die()
    await pool.settle()

    (error,) = pool.failed
    assert isinstance(error, NotStarted)
    assert str(error) == (
        "No process could be started for a worker of model m (m.mar): [Errno 24] Too many open files."
    )
    await begun.close()


async def test_a_process_without_files_is_no_death(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("mar_runtime.pool.worker_process.socket.socketpair", short)
    spec = HandlerSpec("m", "", "h.py", "kserve", 1, 1, None, None, True)

    with pytest.raises(CannotStart, match="Too many open files"):
        await WorkerProcess.start(workers_context(cuda=False), spec, 1)
