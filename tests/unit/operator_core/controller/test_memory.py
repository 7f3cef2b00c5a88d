"""What is remembered of services: results, for as long as their inputs are equal, ends of namespaces, and turns."""

from __future__ import annotations

import weakref

import pytest

from isvc_operator.controller.memory import KEPT, TERMINATING_SECONDS, Memories, RateLimit
from isvc_operator.controller.restores import LastChange
from isvc_operator.kube.informer.cache import ObjectKey
from isvc_operator.manifests import ServiceKey
from tests.support.builders import a_service, a_service_body
from tests.support.fakes import Seconds

KEY = ServiceKey("models", "bert")


class Counted:
    """Makes numbers, each time another one."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> int:
        self.made += 1
        return self.made


@pytest.fixture
def memories(seconds: Seconds) -> Memories:
    return Memories(seconds)


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


def made(memories: Memories, name: str, make: Counted, *inputs: object) -> int:
    return memories.of(ServiceKey("models", name)).memo("step", inputs, make)


# --- results of steps --------------------------------------------------------------------------------------


def test_equal_inputs_give_what_they_gave_before(memories: Memories) -> None:
    make = Counted()

    assert [made(memories, "bert", make, "a", [number]) for number in (1, 1, 2, 1)] == [1, 1, 2, 3]


def test_each_service_and_each_step_has_its_own(memories: Memories) -> None:
    make = Counted()
    made(memories, "bert", make)

    assert made(memories, "other", make) == 2
    assert memories.of(KEY).memo("another step", (), make) == 3
    memories.forget(KEY)
    assert made(memories, "bert", make) == 4


def test_only_the_last_services_have_results(memories: Memories) -> None:
    make = Counted()
    names = [str(number) for number in range(KEPT + 1)]
    for name in names:
        made(memories, name, make)

    assert made(memories, names[-1], make) == KEPT + 1
    assert made(memories, names[0], make) == KEPT + 2


def test_of_equal_inputs_only_those_that_the_result_was_made_from_are_kept(memories: Memories) -> None:
    make = Counted()
    first, equal = a_service().spec, a_service().spec
    made(memories, "bert", make, first)
    made(memories, "bert", make, equal)
    kept = weakref.ref(first), weakref.ref(equal)
    del first, equal

    assert [reference() is not None for reference in kept] == [True, False]


def test_nothing_of_a_service_outlives_it(memories: Memories) -> None:
    memory = memories.of(KEY)
    memory.drained_since = memory.stage_since = 1.0
    memory.sent[ObjectKey("Deployment", *KEY)] = LastChange("digest", 1.0)
    memories.forget(KEY)

    assert (memories.of(KEY).drained_since, memories.of(KEY).stage_since, memories.of(KEY).sent) == (None, None, {})


# --- namespaces that are being deleted ---------------------------------------------------------------------

TERMINATING = ServiceKey("models", "torchserve")


def uid_of(key: ServiceKey) -> str:
    uid: str = a_service_body(key.name)["metadata"]["uid"]
    return uid


def test_the_services_of_a_namespace_that_ends_are_known_and_no_others(memories: Memories) -> None:
    elsewhere = a_service_body()
    elsewhere["metadata"]["namespace"] = "others"
    memories.terminate("models", [a_service_body(), elsewhere])

    waits = [
        memories.terminating(ServiceKey(place, "torchserve"), uid_of(TERMINATING)) for place in ("models", "others")
    ]
    assert waits == [TERMINATING_SECONDS, 0.0]


def test_a_service_of_a_namespace_that_was_created_again_is_another_one(memories: Memories) -> None:
    memories.terminate("models", [a_service_body()])

    assert memories.terminating(TERMINATING, "another-uid") == 0.0


def test_a_forgotten_service_is_not_known_any_more(memories: Memories) -> None:
    memories.terminate("models", [a_service_body()])
    memories.forget(TERMINATING)

    assert not memories.terminating(TERMINATING, uid_of(TERMINATING))


def test_a_service_is_tried_again_as_it_may_be_in_another_namespace_of_that_name(
    memories: Memories, seconds: Seconds
) -> None:
    memories.terminate("models", [a_service_body()])
    seconds.passed = TERMINATING_SECONDS

    assert not memories.terminating(TERMINATING, uid_of(TERMINATING))


# --- when each of many services may replace its pods -------------------------------------------------------

A, B, C, D = (ServiceKey("team", name) for name in "abcd")


@pytest.fixture
def limit(seconds: Seconds) -> RateLimit:
    return RateLimit(seconds)


def waits(limit: RateLimit, *keys: ServiceKey, per_minute: int = 30) -> list[float]:
    return [limit.wait(key, per_minute) for key in keys]


def test_the_first_one_begins_and_each_other_gets_a_turn(limit: RateLimit) -> None:
    assert waits(limit, A, B, C) == [0, 2, 4]
    assert waits(limit, C, A, B) == [4, 0, 2], "which it keeps"


def test_one_that_begins_late_does_not_make_others_wait_less(limit: RateLimit, seconds: Seconds) -> None:
    waits(limit, A, B)
    seconds.passed = 2.5
    waits(limit, B)

    assert waits(limit, C) == [2]


def test_after_a_halt_they_do_not_begin_together(limit: RateLimit, seconds: Seconds) -> None:
    waits(limit, A, B, C, D)
    seconds.passed = 600

    assert waits(limit, B, C, D) == [0, 2, 4]


def test_another_rate_holds_for_those_that_wait(limit: RateLimit, seconds: Seconds) -> None:
    assert waits(limit, A, B, C, per_minute=1) == [0, 60, 120]
    seconds.passed = 10

    assert waits(limit, B, C, per_minute=30) == [0, 2]


def test_one_that_leaves_the_line_holds_nobody_up(limit: RateLimit, seconds: Seconds) -> None:
    waits(limit, A, B, C, per_minute=1)
    for key in (A, B, C):
        limit.forget(key)
    seconds.passed = 50

    assert waits(limit, C, D, per_minute=1) == [10, 70]
