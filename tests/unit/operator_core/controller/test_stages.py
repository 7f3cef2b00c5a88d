"""A status that only names another stage waits for up to a second, one of a fight for a restore; others do not wait."""

from __future__ import annotations

import pytest

from isvc_operator.api.inference_service import Condition, InferenceServiceStatus
from isvc_operator.controller.memory import ServiceMemory
from isvc_operator.controller.status import status_wait


def a_status(ready: str = "Unknown", reason: str = "", *, ingress: str = "True", generation: int = 1) -> (
    InferenceServiceStatus
):  # fmt: skip
    conditions = [Condition(type="IngressReady", status=ingress), Condition(type="Ready", status=ready, reason=reason)]
    return InferenceServiceStatus(observed_generation=generation, conditions=conditions)


SCHEDULING, STARTING = a_status(reason="Scheduling"), a_status(reason="StartingServer")


def test_another_status_waits_until_a_second_after_the_first_that_is_not_written() -> None:
    memory, before = ServiceMemory(), a_status(reason="WaitingForDeployment")
    stages = ((0.0, SCHEDULING), (0.5, STARTING), (1.0, STARTING), (1.25, SCHEDULING))
    waits = {at: status_wait(memory, before, status, at) for at, status in stages}

    assert waits == {0.0: 1.0, 0.5: 0.5, 1.0: 0.0, 1.25: 0.0}


def test_after_a_stage_was_written_the_next_waits_again() -> None:
    memory = ServiceMemory()
    status_wait(memory, a_status(reason="WaitingForDeployment"), SCHEDULING, 0.0)
    memory.stage_since = None

    assert status_wait(memory, SCHEDULING, STARTING, 1.0) == 1.0


def test_a_stage_that_has_passed_again_is_forgotten() -> None:
    memory = ServiceMemory()
    assert status_wait(memory, SCHEDULING, STARTING, 0.0) == 1.0
    assert status_wait(memory, SCHEDULING, SCHEDULING, 0.0) == 0.0

    assert status_wait(memory, SCHEDULING, STARTING, 0.75) == 1.0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(InferenceServiceStatus(), STARTING, id="the first status"),
        pytest.param(STARTING, STARTING, id="the same"),
        pytest.param(STARTING, a_status("True"), id="ready"),
        pytest.param(a_status("True"), STARTING, id="no longer ready"),
        pytest.param(STARTING, a_status("False", "ServerFailed"), id="failed"),
        pytest.param(a_status("False", "ServerFailed"), a_status("False", "ImagePullFailed"), id="another failure"),
        pytest.param(SCHEDULING, a_status(reason="StartingServer", ingress="False"), id="another condition as well"),
        pytest.param(SCHEDULING, a_status(reason="StartingServer", generation=2), id="another generation"),
    ],
)
def test_all_others_are_written_at_once(before: InferenceServiceStatus, after: InferenceServiceStatus) -> None:
    assert status_wait(ServiceMemory(), before, after, 0.0) == 0.0


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        pytest.param(a_status("True", "WaitingForDeployment"), 8.0, id="another reason"),
        pytest.param(a_status("False"), 0.0, id="no longer ready"),
        pytest.param(a_status("True", ingress="False"), 0.0, id="another condition"),
        pytest.param(a_status("True", generation=2), 0.0, id="another generation"),
    ],
)
def test_while_others_change_a_child_it_waits_for_the_next_restore_unless_it_is_news(
    after: InferenceServiceStatus, seconds: float
) -> None:
    assert status_wait(ServiceMemory(), a_status("True"), after, 0.0, fight=8.0) == seconds
