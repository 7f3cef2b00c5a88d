"""Trying again, with a chance and a clock of the test's own."""

from __future__ import annotations

import pytest

from storage_initializer.errors import AccessDeniedError, UnexpectedResponseError, UnreachableError
from storage_initializer.retry import Retry


class Failing:
    """Fails with each of the errors, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def test_what_may_pass_is_tried_again_after_longer_and_longer_waits() -> None:
    waits: list[float] = []
    retry = Retry(attempts=9, chance=lambda: 0.5, wait=waits.append)

    assert retry.run(Failing(*[UnreachableError("no answer")] * 8)) == "done"
    assert waits == [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


def test_the_last_error_is_the_one_that_is_told() -> None:
    retry = Retry(attempts=2, chance=lambda: 1.0, wait=lambda seconds: None)

    with pytest.raises(UnreachableError, match="second"):
        retry.run(Failing(UnreachableError("first"), UnreachableError("second")))


@pytest.mark.parametrize("error", [AccessDeniedError("no"), UnexpectedResponseError("no"), OSError("no")])
def test_what_will_not_pass_is_not_tried_again(error: Exception) -> None:
    action = Failing(error)

    with pytest.raises(type(error)):
        Retry(attempts=5, chance=lambda: 1.0, wait=lambda seconds: pytest.fail("it waits")).run(action)
    assert action.errors == []
