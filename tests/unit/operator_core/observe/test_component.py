"""The condition of each component, and what it takes for the service to be ready."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from isvc_operator.errors import Problem
from isvc_operator.limits import MESSAGE_BYTES, PROGRESS_BYTES
from isvc_operator.observe.component import Rollout, explain, observe_component, rollout_of
from isvc_operator.observe.pods import PodFailure, Stage
from isvc_operator.observe.status import derive_status
from tests.support.builders import NOW, STARTING, a_child, a_deployment, a_resolved, a_service, an_observation, seen

BY_KEDA = {"serving.kserve.io/autoscalerClass": "keda"}
POD = "torchserve-transformer-1-a"
NOT_READY = Stage("StartingServer", f"pod {POD}: the transformer is not ready yet")
WAITING = seen("transformer", rollout=STARTING, stage=NOT_READY)
CRASH = PodFailure(
    "ServerFailed", POD, "no module named digits", container="kserve-container", exit_code=1, has_log=True
)


def conditions(*others: Any, **predictor: Any) -> dict[str, tuple[str, str | None, str | None]]:
    status = derive_status(an_observation(*others, **predictor), NOW)
    return {item.type: (item.status, item.reason, item.message) for item in status.conditions}


def test_a_service_that_was_scaled_to_zero_is_ready_says_so_and_has_no_model_loaded() -> None:
    at_zero = an_observation(rollout=Rollout(complete=True, serving=0, message="scaled to zero"), pods=[])
    status = derive_status(at_zero, NOW)

    found = {item.type: (item.status, item.message) for item in status.conditions}
    assert (found["PredictorReady"], found["Ready"][0]) == (("True", "scaled to zero"), "True")
    assert status.model_status is not None
    assert status.model_status.states is not None
    assert status.model_status.states.target_model_state == "Standby"


def test_a_service_that_is_being_scaled_to_zero_does_not_start() -> None:
    """Neither before the Deployment controller has seen it, nor while the pod ends."""
    unseen = a_deployment(replicas=0, generation=2, observed_generation=1)
    ending = a_deployment(replicas=0, updated=0, total=1, available=0)

    found = [conditions(rollout=rollout_of(deployment), pods=[])["Ready"][:2] for deployment in (unseen, ending)]

    assert found == [("True", None)] * 2


REPLACING = Rollout(complete=False, serving=1, message="0 of 1 pods updated, 1 available", sufficient=True)


@pytest.mark.parametrize(
    ("generation", "rollout", "status"),
    [
        (1, REPLACING, "True"),
        (2, REPLACING, "Unknown"),
        (1, replace(REPLACING, sufficient=False), "Unknown"),
        (1, replace(REPLACING, sufficient=False, finished=True), "False"),
    ],
    ids=["enough pods of this generation", "pods of an older generation", "too few of a rollout", "too few after one"],
)
def test_a_component_stays_ready_while_its_pods_are_replaced_and_enough_of_them_serve(
    generation: int, rollout: Rollout, status: str
) -> None:
    before = derive_status(an_observation(), NOW)
    service = a_service(status=before.model_dump(by_alias=True, exclude_none=True), generation=generation)

    found = conditions(service=service, rollout=rollout, stage=NOT_READY)

    assert found["PredictorReady"][0] == found["Ready"][0] == status
    assert (found["PredictorReady"][2] or "").endswith(f"({rollout.message})")


@pytest.mark.parametrize(("paused", "complete"), [("True", True), ("False", False)])
def test_a_component_waits_for_the_minimum_of_its_autoscaler_unless_that_is_paused(paused: str, complete: bool) -> None:
    service = a_service(annotations=BY_KEDA, predictor={"minReplicas": 2, "maxReplicas": 4})
    (predictor,) = a_resolved(service).components
    autoscaler = a_child("ScaledObject", status={"conditions": [{"type": "Paused", "status": paused}]})

    found = observe_component("predictor", predictor, [a_deployment(), autoscaler], stopped=False)

    assert found.rollout.complete is complete


def test_a_component_that_is_not_there_has_none() -> None:
    assert sorted(conditions()) == ["IngressReady", "PredictorReady", "Progressing", "Ready", "Stopped"]


SERVES = ("True", "NewReplicaSetAvailable", None)
WAITS = ("Unknown", "StartingServer", f"pod {POD}: the transformer is not ready yet (1 of 1 pods updated, 0 available)")
FAILED = (
    "False",
    "ServerFailed",
    f"pod {POD}, container kserve-container ended with exit code 1: no module named digits\n"
    "Last log lines:\n| ModuleNotFoundError",
)
REFUSED = ("False", "InvalidPredictorSpec", "no such format")
STOPPED = ("False", "Stopped", "The service is stopped by its annotation")


@pytest.mark.parametrize(
    ("transformer", "given", "expected"),
    [
        (WAITING, {}, (SERVES, WAITS, WAITS)),
        (seen("transformer", rollout=STARTING, failure=CRASH, log="ModuleNotFoundError"), {}, (SERVES, FAILED, FAILED)),
        (WAITING, {"resolved": None, "problem": Problem(*REFUSED[1:])}, (REFUSED, REFUSED, REFUSED)),
        (WAITING, {"resolved": None, "stopped": True}, (STOPPED, STOPPED, STOPPED)),
    ],
    ids=["waits for it", "fails with it", "is refused with it", "is stopped with it"],
)
def test_a_service_with_a_transformer(transformer: Any, given: dict[str, Any], expected: tuple[Any, ...]) -> None:
    found = conditions(transformer, **given)

    assert tuple(found[name] for name in ("PredictorReady", "TransformerReady", "Ready")) == expected


def test_while_both_are_starting_the_predictor_is_reported_first() -> None:
    assert "torchserve-predictor-1-a" in str(conditions(WAITING, rollout=STARTING)["Ready"][2])


def test_a_failed_transformer_is_no_failure_of_the_model() -> None:
    status = derive_status(an_observation(seen("transformer", rollout=STARTING, failure=CRASH)), NOW)

    assert status.model_status is not None
    assert (status.model_status.transition_status, status.model_status.last_failure_info) == ("UpToDate", None)


STUCK = Rollout(complete=False, serving=0, message="1 of 1 pods updated, 0 available", stuck=True)


@pytest.mark.parametrize("rollout", [STARTING, STUCK], ids=["for long", "beyond the deadline"])
def test_the_log_of_a_server_that_is_not_ready_is_reported(rollout: Rollout) -> None:
    said = "the predictor at http://nowhere.models is not ready: Name or service not known"
    waiting = seen("transformer", rollout=rollout, stage=NOT_READY, log=said)

    assert str(conditions(waiting)["Ready"][2]).endswith(f"\nLast log lines:\n| {said}")


def test_a_predictor_of_own_containers_has_no_runtime_to_name() -> None:
    service = a_service(model=None, predictor={"containers": [{"image": "mine"}]})
    status = derive_status(an_observation(service=service), NOW).as_dict()

    assert "clusterServingRuntimeName" not in status
    assert "servingRuntimeName" not in status


FORGED = "a\nEvents: none\r\x1b[2J\u202e"


def test_a_line_of_progress_is_bounded_and_one_line() -> None:
    found = conditions(rollout=STARTING, stage=Stage("LoadingModel", "copying"), progress=FORGED + "x" * 10_000)

    message = str(found["PredictorReady"][2])
    assert message.startswith("copying: a\\nEvents: none\\r\\x1b[2J\\u202exxx")
    assert len(message.encode()) == len("copying: ") + PROGRESS_BYTES + len(" (1 of 1 pods updated, 0 available)")


def test_every_line_that_a_container_has_said_is_marked() -> None:
    failure = PodFailure("ServerFailed", "p", FORGED, fix="do this")

    assert explain(failure, f"first\n{FORGED}\n") == (
        "pod p: a\n| Events: none\\r\\x1b[2J\\u202e\ndo this\n"
        "Last log lines:\n| first\n| a\n| Events: none\\r\\x1b[2J\\u202e"
    )


def test_of_what_a_container_has_said_the_end_is_kept() -> None:
    text = explain(PodFailure("ServerFailed", "p", "x" * 1_000_000 + "the cause"), "y" * 10_000_000 + "the end")

    assert len(text.encode()) < MESSAGE_BYTES
    assert "xthe cause\nLast log lines:\n| …yyy" in text
    assert text.endswith("ythe end")
