"""What was made of a service is made again when something that it was made from has changed."""

from __future__ import annotations

from isvc_operator.kube import made as made_module
from isvc_operator.kube.cache import ServiceKey
from isvc_operator.kube.made import KEPT, Made, wanted
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


def test_a_write_of_the_status_changes_nothing_that_a_service_asks_for() -> None:
    before, after = a_service(), a_service(status={"observedGeneration": 1})
    newer = after.model_copy(update={"metadata": after.metadata.model_copy(update={"resource_version": "99"})})

    assert wanted(before) == wanted(newer)
    assert wanted(before) != wanted(a_service(name="other"))
