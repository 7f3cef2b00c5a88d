"""A status that only names another stage waits for up to a second; all others are written at once."""

from __future__ import annotations

import pytest

from isvc_operator.api.inference_service import Condition, InferenceServiceStatus
from isvc_operator.controller.stages import StageThrottle
from isvc_operator.manifests import ServiceKey
from tests.support.fakes import Seconds

KEY = ServiceKey("team", "bert")


def a_status(ready: str = "Unknown", reason: str = "", *, ingress: str = "True", generation: int = 1) -> (
    InferenceServiceStatus
):  # fmt: skip
    conditions = [Condition(type="IngressReady", status=ingress), Condition(type="Ready", status=ready, reason=reason)]
    return InferenceServiceStatus(observed_generation=generation, conditions=conditions)


SCHEDULING, STARTING = a_status(reason="Scheduling"), a_status(reason="StartingServer")


def test_another_stage_waits_until_a_second_after_the_first_that_is_not_written() -> None:
    seconds = Seconds()
    stages = StageThrottle(seconds)
    waits = {}
    for at, status in ((0.0, SCHEDULING), (0.5, STARTING), (1.0, STARTING), (1.25, SCHEDULING)):
        seconds.passed = at
        waits[at] = stages.wait(KEY, a_status(reason="WaitingForDeployment"), status)

    assert waits == {0.0: 1.0, 0.5: 0.5, 1.0: 0.0, 1.25: 0.0}


def test_after_a_stage_was_written_the_next_waits_again() -> None:
    seconds = Seconds()
    stages = StageThrottle(seconds)
    stages.wait(KEY, a_status(reason="WaitingForDeployment"), SCHEDULING)
    seconds.passed = 1.0
    stages.forget(KEY)

    assert stages.wait(KEY, SCHEDULING, STARTING) == 1.0


def test_a_stage_that_has_passed_again_is_forgotten() -> None:
    seconds = Seconds()
    stages = StageThrottle(seconds)
    assert stages.wait(KEY, SCHEDULING, STARTING) == 1.0
    assert stages.wait(KEY, SCHEDULING, SCHEDULING) == 0.0
    seconds.passed = 0.75

    assert stages.wait(KEY, SCHEDULING, STARTING) == 1.0


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
    assert StageThrottle(Seconds()).wait(KEY, before, after) == 0.0
