"""What was made of a service is made again when something that it was made from has changed."""

from __future__ import annotations

import weakref

import pytest

from isvc_operator.controller import made as made_module
from isvc_operator.controller.made import KEPT, Made, wanted
from isvc_operator.manifests import ServiceKey
from tests.support.builders import a_service

KEY = ServiceKey("models", "bert")


class Counted:
    """Makes numbers, each time another one."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> int:
        self.made += 1
        return self.made


def test_equal_inputs_give_what_they_gave_before() -> None:
    known, make = Made[int](), Counted()

    assert [known.of(KEY, ("a", [1]), make), known.of(KEY, ("a", [1]), make), known.of(KEY, ("b", [1]), make)] == [
        1,
        1,
        2,
    ]
    assert known.of(KEY, ("a", [1]), make) == 3


def test_each_service_has_its_own() -> None:
    known, make = Made[int](), Counted()
    known.of(KEY, (), make)

    assert known.of(ServiceKey("models", "other"), (), make) == 2
    known.forget(KEY)
    assert known.of(KEY, (), make) == 3


def test_only_the_last_services_are_kept() -> None:
    known, make = Made[int](), Counted()
    keys = [ServiceKey("models", str(number)) for number in range(KEPT + 1)]
    for key in keys:
        known.of(key, (), make)

    assert known.of(keys[-1], (), make) == made_module.KEPT + 1
    assert known.of(keys[0], (), make) == made_module.KEPT + 2


def test_what_is_held_is_kept_until_it_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_module, "KEPT", 1)
    monkeypatch.setattr(made_module, "HELD", 1)
    known, make = Made[int](), Counted()
    for name in ("held", "too many", "last"):
        known.of(ServiceKey("models", name), (), make)
        known.hold(ServiceKey("models", name))
    known.of(KEY, (), make)

    assert known.of(ServiceKey("models", "held"), (), make) == 1  # and the last one for now
    assert known.of(ServiceKey("models", "too many"), (), make) == 5
    assert known.of(ServiceKey("models", "held"), (), make) == 6


def test_a_service_that_is_forgotten_is_not_held() -> None:
    known, make = Made[int](), Counted()
    known.of(KEY, (), make)
    known.hold(KEY)
    known.forget(KEY)

    assert known.of(KEY, (), make) == 2


def test_of_equal_inputs_only_those_that_the_value_was_made_from_are_kept() -> None:
    known, make = Made[int](), Counted()
    first, equal = a_service().spec, a_service().spec
    known.of(KEY, (first,), make)
    known.of(KEY, (equal,), make)
    kept = weakref.ref(first), weakref.ref(equal)
    del first, equal

    assert [reference() is not None for reference in kept] == [True, False]


def test_a_write_of_the_status_changes_nothing_that_a_service_asks_for() -> None:
    before, after = a_service(), a_service(status={"observedGeneration": 1})
    newer = after.model_copy(update={"metadata": after.metadata.model_copy(update={"resource_version": "99"})})

    assert wanted(before) == wanted(newer)
    assert wanted(before) != wanted(a_service(name="other"))
