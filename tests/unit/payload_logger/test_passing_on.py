"""When payloads are passed on to the senders: between requests, and not much later if there are always some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from data_plane.payload_logger.counts import Counts
from data_plane.payload_logger.events import Payload, PayloadKind
from data_plane.payload_logger.queue import PayloadQueue

DELAYS = 11  # until payloads are sent beside requests


class Loop:
    """An event loop that takes the next step when it is told to."""

    def __init__(self) -> None:
        self.steps: list[tuple[bool, Callable[[], object]]] = []  # whether it is a timer

    def call_later(self, _: float, call: Callable[..., object], *arguments: Any) -> None:
        self.steps.append((True, lambda: call(*arguments)))

    def call_soon(self, call: Callable[..., object], *arguments: Any) -> None:
        self.steps.append((False, lambda: call(*arguments)))

    def step(self) -> bool:
        """Take one step; return whether it was a timer's."""
        is_timer, call = self.steps.pop(0)
        call()
        return is_timer


class Queued:
    """A queue with payloads, on such a loop."""

    def __init__(self, number: int, *, busy: bool) -> None:
        self.busy = busy
        self.loop = Loop()
        self.queue = PayloadQueue(Counts(), 1000, 1000, lambda: self.busy)
        self.queue._loop = cast("Any", self.loop)
        for _ in range(number):
            self.queue.put(Payload(PayloadKind.REQUEST, "1", b"", (), (), 0.0, 0))

    @property
    def passed_on(self) -> int:
        return self.queue._waiting.qsize()


def test_nothing_is_passed_on_before_a_delay() -> None:
    queued = Queued(3, busy=False)

    assert (queued.passed_on, len(queued.loop.steps)) == (0, 1)


def test_between_requests_each_payload_is_a_step_of_its_own() -> None:
    queued = Queued(3, busy=False)
    seen = [(queued.loop.step(), queued.passed_on) for _ in range(4)]

    assert seen == [(True, 1), (False, 2), (False, 3), (False, 3)]
    assert queued.loop.steps == []


def test_a_request_that_begins_is_not_disturbed() -> None:
    queued = Queued(3, busy=False)
    queued.loop.step()
    queued.busy = True
    seen = [(queued.loop.step(), queued.passed_on) for _ in range(3)]
    queued.busy = False
    queued.loop.step()

    assert seen == [(False, 1), (True, 1), (True, 1)]
    assert queued.passed_on == 2


def test_while_there_are_always_requests_payloads_are_passed_on_after_some_delays() -> None:
    queued = Queued(3, busy=True)
    before = [(queued.loop.step(), queued.passed_on) for _ in range(DELAYS - 1)]
    after = [(queued.loop.step(), queued.passed_on) for _ in range(3)]

    assert before == [(True, 0)] * (DELAYS - 1)
    assert after == [(True, 1), (False, 2), (False, 3)]


def test_what_comes_meanwhile_waits_as_long() -> None:
    queued = Queued(1, busy=True)
    for _ in range(DELAYS - 1):
        queued.loop.step()
    queued.loop.step()
    queued.queue.put(Payload(PayloadKind.REQUEST, "2", b"", (), (), 0.0, 0))
    steps = 0
    while queued.passed_on < 2:
        queued.loop.step()
        steps += 1

    assert steps == DELAYS + 1
