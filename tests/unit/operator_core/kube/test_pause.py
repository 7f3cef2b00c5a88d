"""The pause that an API server asks for: who waits, for how long, and in which order they go on."""

from __future__ import annotations

import asyncio
import logging

import pytest

from isvc_operator.kube.pause import Pause


class World:
    """A clock, and sleeps that end when a test lets time pass."""

    def __init__(self, *randoms: float) -> None:
        self.now = 0.0
        self._randoms = list(randoms)
        self._sleeping: list[tuple[float, asyncio.Event]] = []
        self.pause = Pause(lambda: self.now, lambda: self._randoms.pop(0), self.sleep)

    async def sleep(self, seconds: float) -> None:
        self._sleeping.append((self.now + seconds, woken := asyncio.Event()))
        await woken.wait()

    async def pass_until(self, time: float) -> None:
        await _settled()
        self.now = time
        due = [event for until, event in self._sleeping if until <= time]
        self._sleeping = [item for item in self._sleeping if item[0] > time]
        for event in due:
            event.set()
        await _settled()


async def _settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_without_a_pause_nobody_waits() -> None:
    world = World()

    await world.pause.over()

    assert world.pause.left == 0.0


async def test_those_that_wait_go_on_one_after_the_other_and_not_before_the_end() -> None:
    world, gone = World(0.5, 0.0, 1.0), list[str]()

    async def request(name: str) -> None:
        await world.pause.over()
        gone.append(f"{name} at {world.now:g}")

    world.pause.begin(4.0, "busy")
    async with asyncio.TaskGroup() as group:
        for name in ("a", "b", "c"):
            group.create_task(request(name))
        for time in (3.9, 4.0, 6.0, 8.0):
            await world.pass_until(time)

    assert gone == ["b at 4", "a at 6", "c at 8"]


async def test_a_server_that_is_still_busy_when_the_first_one_asks_again_holds_the_others_back() -> None:
    world = World(0.0, 0.5, 0.0)

    async def first() -> None:
        await world.pause.over()
        world.pause.begin(10.0, "busy")

    world.pause.begin(2.0, "busy")
    async with asyncio.TaskGroup() as group:
        group.create_task(first())
        second = group.create_task(world.pause.over())
        await world.pass_until(2.0)
        await world.pass_until(3.0)
        assert (second.done(), world.pause.left) == (False, 9.0)
        await world.pass_until(12.0)

    assert second.done()


async def test_a_pause_is_never_shortened_and_never_longer_than_its_bound() -> None:
    world = World()
    world.pause.begin(9.0, "busy")
    world.pause.begin(1.0, "busy")
    kept = world.pause.left
    world.pause.begin(86400.0, "busy")

    assert (kept, world.pause.left) == (9.0, 30.0)


async def test_a_pause_is_logged_when_it_begins_and_ends_and_not_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "isvc_operator")
    world = World()
    world.pause.begin(1.0, "Too many requests")
    world.pause.ended()  # the response to a request that was on its way
    world.now = 2.0
    world.pause.begin(1.0, "Too many requests")
    world.now = 3.0
    world.pause.ended()
    world.pause.ended()

    assert caplog.messages == [
        "requests pause, because the API server asks for it: Too many requests",
        "the API server works on requests again",
    ]
