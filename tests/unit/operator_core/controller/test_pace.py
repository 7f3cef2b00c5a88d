"""When each of many services may replace its pods."""

from __future__ import annotations

import pytest

from isvc_operator.controller.pace import Pace
from isvc_operator.manifests import ServiceKey
from tests.support.fakes import Seconds

A, B, C, D = (ServiceKey("team", name) for name in "abcd")


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def pace(seconds: Seconds) -> Pace:
    return Pace(seconds)


def waits(pace: Pace, *keys: ServiceKey, per_minute: int = 30) -> list[float]:
    return [pace.wait(key, per_minute) for key in keys]


def test_the_first_one_begins_and_each_other_gets_a_turn(pace: Pace) -> None:
    assert waits(pace, A, B, C) == [0, 2, 4]
    assert waits(pace, C, A, B) == [4, 0, 2], "which it keeps"


def test_a_turn_comes(pace: Pace, seconds: Seconds) -> None:
    waits(pace, A, B, C)
    seconds.passed = 2.5

    assert waits(pace, B, C, D) == [0, 1.5, 3.5]


def test_one_that_begins_late_does_not_make_others_wait_less(pace: Pace, seconds: Seconds) -> None:
    waits(pace, A, B)
    seconds.passed = 2.5
    waits(pace, B)

    assert waits(pace, C) == [2]


def test_after_a_halt_they_do_not_begin_together(pace: Pace, seconds: Seconds) -> None:
    waits(pace, A, B, C, D)
    seconds.passed = 600

    assert waits(pace, B, C, D) == [0, 2, 4]


def test_another_rate_holds_for_those_that_wait(pace: Pace, seconds: Seconds) -> None:
    assert waits(pace, A, B, C, per_minute=1) == [0, 60, 120]
    seconds.passed = 10

    assert waits(pace, C, B, per_minute=30) == [2, 0]


def test_one_that_leaves_the_line_holds_nobody_up(pace: Pace, seconds: Seconds) -> None:
    waits(pace, A, B, C, per_minute=1)
    for key in (A, B, C):
        pace.forget(key)
    seconds.passed = 50

    assert waits(pace, C, D, per_minute=1) == [10, 70]


def test_one_that_has_begun_gets_another_turn_for_the_next_change(pace: Pace) -> None:
    waits(pace, A)
    pace.forget(A)

    assert waits(pace, A) == [2]
