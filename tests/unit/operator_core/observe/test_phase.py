"""A service's conditions in one word."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.observe.conditions import phase_of
from isvc_operator.telemetry.snapshot import Phase
from tests.support.builders import a_service_body


def conditions(**statuses: str) -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": status} for type_, status in statuses.items()]}


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        (None, Phase.PENDING),
        ({}, Phase.PENDING),
        (conditions(Ready="Unknown", Stopped="False"), Phase.STARTING),
        (conditions(Ready="True", Stopped="False"), Phase.READY),
        (conditions(Ready="False", Stopped="False"), Phase.FAILED),
        (conditions(Ready="False", Stopped="True"), Phase.STOPPED),
    ],
)
def test_the_phase_is_what_the_conditions_say(status: dict[str, Any] | None, phase: Phase) -> None:
    assert phase_of({**a_service_body(), "status": status}) is phase


def test_a_service_that_is_being_deleted_is_terminating() -> None:
    body = a_service_body()
    metadata = {**body["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}

    assert phase_of({**body, "metadata": metadata, "status": conditions(Ready="True")}) is Phase.TERMINATING
