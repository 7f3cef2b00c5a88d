"""The status of a service, derived from what is seen (docs/kserve.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidCertificate, Problem, Unexpected
from isvc_operator.kube.errors import KubeError, NotOurs, RequestRefused
from isvc_operator.observe.component import Rollout, explain
from isvc_operator.observe.pods import PodFailure, Stage, first_failure
from isvc_operator.observe.routes import RouteProblem
from isvc_operator.observe.status import derive_status
from isvc_operator.resolve.component import StorageContext
from isvc_operator.resolve.requested import storage_requests
from isvc_operator.resolve.runtime import Runtimes
from isvc_operator.resolve.service import resolve
from tests.support.builders import (
    EARLIER,
    NAMESPACE,
    NOW,
    STARTING,
    a_crashed_pod,
    a_pod,
    a_ready_pod,
    a_runtime,
    a_service,
    an_initializer,
    an_observation,
    ended,
)

POD = "torchserve-predictor-1-a"
LOADING = Stage("LoadingModel", f"pod {POD}: the storage-initializer is copying the model")
PREPARING = Stage("PreparingPod", f"pod {POD}: volumes and images are being prepared")
CRASH = PodFailure(
    reason="ServerFailed",
    pod=POD,
    cause="ValueError: no such layer",
    container="kserve-container",
    exit_code=1,
    has_log=True,
    attempt="containerd://one",
)
CRASH_WORDS = f"pod {POD}, container kserve-container ended with exit code 1: ValueError: no such layer"
NO_NODE = PodFailure("Unschedulable", POD, "3 Insufficient cpu.", "add a node", heals=True)

# What stands in every status of a service that could be resolved.
ADDRESSES = {
    "url": "http://torchserve.models.example.com",
    "address": {"url": "http://torchserve-predictor.models.svc.cluster.local"},
    "components": {"predictor": {"url": "http://torchserve-predictor.models.example.com"}},
    "deploymentMode": "Standard",
    "clusterServingRuntimeName": "kserve-torchserve",
}


def status_of(**seen: Any) -> dict[str, Any]:
    return derive_status(an_observation(**seen), NOW).as_dict()


def by_type(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["type"]: item for item in status["conditions"]}


def condition(type_: str, status: str, reason: str | None = None, message: str | None = None) -> dict[str, str]:
    words = {"reason": reason, "message": message}
    severities = dict.fromkeys(("Progressing", "Stalled", "Stopped"), "Info")
    severities["StorageIncomplete"] = "Warning"
    severity = {"severity": severities[type_]} if type_ in severities else {}
    given = {name: text for name, text in words.items() if text}
    return {"type": type_, "status": status, **severity, **given, "lastTransitionTime": NOW}


INGRESS_IS_READY = condition("IngressReady", "True")
NOT_STOPPED = condition("Stopped", "False")
PREDICTOR_SAYS_MORE = "the condition PredictorReady says more"


def test_a_starting_service_reports_its_stage() -> None:
    words = ("LoadingModel", f"{LOADING.message} (1 of 1 pods updated, 0 available)")

    assert status_of(rollout=STARTING, pods=[a_pod()], stage=LOADING) == {
        "observedGeneration": 1,
        "conditions": [
            INGRESS_IS_READY,
            condition("PredictorReady", "Unknown", *words),
            condition("Progressing", "True", "LoadingModel", PREDICTOR_SAYS_MORE),
            condition("Ready", "Unknown", *words),
            NOT_STOPPED,
        ],
        "modelStatus": {
            "transitionStatus": "InProgress",
            "states": {"activeModelState": "Pending", "targetModelState": "Loading"},
            "copies": {"failedCopies": 0, "totalCopies": 0},
        },
        **ADDRESSES,
    }


def test_a_failed_service_reports_pod_container_exit_code_cause_and_log() -> None:
    seen = {"rollout": STARTING, "pods": [a_crashed_pod()], "failure": CRASH, "log": "line 1\nline 2"}
    message = f"{CRASH_WORDS}\nLast log lines:\n| line 1\n| line 2"

    assert status_of(**seen) == {
        "observedGeneration": 1,
        "conditions": [
            INGRESS_IS_READY,
            condition("PredictorReady", "False", "ServerFailed", message),
            condition("Progressing", "False", "ServerFailed", PREDICTOR_SAYS_MORE),
            condition("Ready", "False", "ServerFailed", message),
            condition("Stalled", "True", "ServerFailed", PREDICTOR_SAYS_MORE),
            NOT_STOPPED,
        ],
        "modelStatus": {
            "transitionStatus": "BlockedByFailedLoad",
            "states": {"activeModelState": "Pending", "targetModelState": "FailedToLoad"},
            "lastFailureInfo": {
                "location": f"pod {POD}, container kserve-container",
                "reason": "ModelLoadFailed",
                "message": message,
                "exitCode": 1,
                "time": NOW,
            },
            "copies": {"failedCopies": 1, "totalCopies": 0},
        },
        **ADDRESSES,
    }


def test_a_failed_update_reports_that_older_pods_still_serve() -> None:
    served = status_of()
    rollout = Rollout(complete=False, serving=1, message="1 of 1 pods updated, 1 available")

    status = status_of(service=a_service(status=served), rollout=rollout, pods=[a_crashed_pod()], failure=CRASH)

    assert status["conditions"][1] == condition(
        "PredictorReady", "False", "ServerFailed", f"{CRASH_WORDS}\nRequests are still served (1 pod available)."
    )
    assert status["modelStatus"]["states"] == {"activeModelState": "Loaded", "targetModelState": "FailedToLoad"}
    assert status["modelStatus"]["transitionStatus"] == "BlockedByFailedLoad"


def test_a_crash_beside_a_complete_rollout_does_not_make_the_service_unready() -> None:
    pods = [a_ready_pod("one"), a_crashed_pod("two")]

    status = status_of(pods=pods, failure=CRASH)

    assert [item["status"] for item in status["conditions"]] == ["True", "True", "True", "True", "False"]
    assert status["modelStatus"] == {
        "transitionStatus": "UpToDate",
        "states": {"activeModelState": "Loaded", "targetModelState": "Loaded"},
        "copies": {"failedCopies": 1, "totalCopies": 1},
    }


def test_a_ready_pod_is_a_copy_when_its_deployment_counts_it() -> None:
    counts = {
        serving: status_of(rollout=Rollout(complete=bool(serving), serving=serving, message=""), pods=[a_ready_pod()])[
            "modelStatus"
        ]["copies"]["totalCopies"]
        for serving in (0, 1)
    }

    assert counts == {0: 0, 1: 1}


def test_a_pod_that_does_not_come_to_load_the_model_does_not_fail_the_model() -> None:
    status = status_of(rollout=STARTING, pods=[a_pod()], failure=NO_NODE, stage=PREPARING)
    message = f"pod {POD}: 3 Insufficient cpu; add a node"

    assert status["conditions"][1] == condition("PredictorReady", "False", "Unschedulable", message)
    assert status["modelStatus"] == {
        "transitionStatus": "InProgress",
        "states": {"activeModelState": "Pending", "targetModelState": "Pending"},
        "lastFailureInfo": {"location": f"pod {POD}", "reason": "RuntimeUnhealthy", "message": message, "time": NOW},
        "copies": {"failedCopies": 1, "totalCopies": 0},
    }


@pytest.mark.parametrize(
    ("problem", "stalls"),
    [
        (Problem.of(RequestRefused(403, "denied by policy no-latest")), True),
        (Problem.of(NotOurs(409, "another manager has set it")), True),
        (Problem.of(InvalidCertificate("secret x does not exist")), True),
        (Problem.of(Unexpected("the operator has failed (KeyError); see its log")), True),
        (Problem.of(KubeError(500, "failed to call webhook")), False),
        (Problem.of(KubeError(0, "no response from the API server")), False),
    ],
    ids=lambda value: value.message if isinstance(value, Problem) else "",
)
def test_a_problem_stalls_unless_it_may_pass_by_itself(problem: Problem, stalls: bool) -> None:
    status = status_of(problem=problem, rollout=STARTING, pods=[])

    assert ("Stalled" in by_type(status)) is stalls
    assert status["modelStatus"]["transitionStatus"] == ("BlockedByFailedLoad" if stalls else "InProgress")


@pytest.mark.parametrize(
    ("reason", "stalls"),
    [
        ("IngressNotCreated", False),
        ("RouteNotCreated", False),
        ("ParentStatusNotAvailable", False),
        ("GatewayApiNotInstalled", True),
        ("NotAllowedByListeners", True),
    ],
)
def test_a_route_stalls_what_only_a_change_lets_pass(reason: str, stalls: bool) -> None:
    status = by_type(status_of(route_problem=RouteProblem(reason, "what to do")))

    assert (status.get("Stalled", {}).get("message") == "the condition IngressReady says more") is stalls


@pytest.mark.parametrize("reason", ["Evicted", "UnexpectedAdmissionError", "NodeShutdown", "Preempting", None])
def test_a_pod_that_has_ended_is_replaced_and_so_stalls_nothing(reason: str | None) -> None:
    pod = a_pod(phase="Failed", **({"reason": reason} if reason else {}))
    status = status_of(rollout=STARTING, pods=[pod], failure=first_failure([pod]))

    assert by_type(status)["PredictorReady"]["reason"] == (reason or "PodFailed")
    assert "Stalled" not in by_type(status)
    assert status["modelStatus"]["transitionStatus"] == "InProgress"


def test_a_spec_that_cannot_be_served_stalls_whatever_its_pods_do() -> None:
    pod = a_pod(phase="Failed", reason="Evicted")
    problem = Problem("NoSupportingRuntime", "what to do")

    status = status_of(resolved=None, problem=problem, rollout=STARTING, pods=[pod], failure=first_failure([pod]))

    assert by_type(status)["Stalled"]["reason"] == "NoSupportingRuntime"


@pytest.mark.parametrize(
    ("rollout", "pods", "words"),
    [
        (replace(STARTING, refusal="exceeded quota"), [], ("PodsRefused", "exceeded quota")),
        (
            replace(STARTING, stuck=True),
            [a_pod()],
            (
                "ProgressDeadlineExceeded",
                f"pod {POD}: the server is starting and loading the model (1 of 1 pods updated, 0 available), "
                "and nothing has changed within the Deployment's progressDeadlineSeconds",
            ),
        ),
        (
            replace(STARTING, serving=1, paused="it is paused"),
            [],
            ("DeploymentPaused", "it is paused\nRequests are still served (1 pod available)."),
        ),
    ],
    ids=["cannot create pods", "has made no progress within its deadline", "is paused"],
)
def test_a_deployment_fails_that(rollout: Rollout, pods: list[dict[str, Any]], words: tuple[str, str]) -> None:
    predictor = status_of(rollout=rollout, pods=pods)["conditions"][1]

    assert predictor == condition("PredictorReady", "False", *words)


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (RouteProblem("IngressNotCreated", "The Ingress does not exist yet"), "False"),
        (RouteProblem("ParentStatusOutdated", "not yet", failed=False), "Unknown"),
    ],
    ids=["missing", "not looked at by its gateway yet"],
)
def test_a_route_keeps_the_service_from_being_ready_that_is(problem: RouteProblem, status: str) -> None:
    conditions = status_of(route_problem=problem)["conditions"]

    assert conditions[0] == condition("IngressReady", status, problem.reason, problem.message)
    assert conditions[3] == condition("Ready", status, problem.reason, problem.message)


def test_a_service_that_serves_is_progressing_until_all_its_pods_are_replaced() -> None:
    rollout = Rollout(complete=False, serving=1, message="0 of 1 pods updated, 1 available", sufficient=True)

    status = status_of(service=a_service(status=status_of()), rollout=rollout, pods=[a_pod()], stage=LOADING)

    conditions = by_type(status)
    assert (conditions["Ready"]["status"], conditions["Progressing"]) == (
        "True",
        condition("Progressing", "True", "LoadingModel", PREDICTOR_SAYS_MORE),
    )


def test_a_service_whose_traffic_is_held_back_is_still_progressing() -> None:
    progressing = status_of(held=True)["conditions"][2]

    assert (progressing["type"], progressing["status"], progressing["reason"]) == ("Progressing", "True", "TrafficHeld")


def test_a_service_whose_change_is_held_back_says_so_and_serves() -> None:
    conditions = {
        item["type"]: item for item in status_of(paused={"predictor": "canaryTrafficPercent: 10"})["conditions"]
    }

    assert conditions["Progressing"] == condition(
        "Progressing", "True", "CanaryNotSupported", "the condition ChangeHeldBack says more"
    )
    assert [type_ for type_, item in conditions.items() if item["status"] != "True"] == ["Stopped"]


# --- stopped, and refused -------------------------------------------------------------------------------


def test_a_stopped_service_keeps_its_mode_and_says_that_it_is_stopped() -> None:
    service = a_service(status=status_of())
    words = ("Stopped", "The service is stopped by its annotation")
    gone = Rollout(complete=False, serving=0, message="the Deployment does not exist yet")

    assert status_of(service=service, resolved=None, stopped=True, rollout=gone, pods=[]) == {
        "observedGeneration": 1,
        "conditions": [
            condition("IngressReady", "False", "Stopped"),
            condition("PredictorReady", "False", *words),
            condition("Progressing", "False", "Stopped", PREDICTOR_SAYS_MORE),
            condition("Ready", "False", *words),
            condition("Stopped", "True"),
        ],
        "deploymentMode": "Standard",
    }


@pytest.mark.parametrize(
    "reason", ["InvalidPredictorSpec", "NoSupportingRuntime", "RuntimeNotRecognized", "RuntimeDisabled"]
)
def test_a_service_that_cannot_be_served_as_written_says_why(reason: str) -> None:
    problem = Problem(reason, "what to do")

    status = status_of(resolved=None, problem=problem, rollout=STARTING, pods=[])

    assert status == {
        "observedGeneration": 1,
        "conditions": [
            condition("IngressReady", "Unknown", "PredictorNotResolved"),
            condition("PredictorReady", "False", problem.reason, problem.message),
            condition("Progressing", "False", problem.reason, PREDICTOR_SAYS_MORE),
            condition("Ready", "False", problem.reason, problem.message),
            condition("Stalled", "True", problem.reason, PREDICTOR_SAYS_MORE),
            NOT_STOPPED,
        ],
        "modelStatus": {
            "transitionStatus": "InvalidSpec",
            "states": {"activeModelState": "Pending", "targetModelState": "FailedToLoad"},
            "lastFailureInfo": {"reason": reason, "message": "what to do", "time": NOW},
            "copies": {"failedCopies": 0, "totalCopies": 0},
        },
        "deploymentMode": "Standard",
    }


def test_a_failed_write_is_not_reported_as_an_invalid_spec() -> None:
    problem = Problem("ReconcileFailed", "Deployment torchserve-predictor: no response from the API server", True)

    status = status_of(problem=problem, rollout=STARTING, pods=[])

    assert status["conditions"][1] == condition("PredictorReady", "False", problem.reason, problem.message)
    assert status["modelStatus"]["transitionStatus"] == "InProgress"
    assert status["modelStatus"]["lastFailureInfo"] == {
        "reason": "RuntimeUnhealthy",
        "message": problem.message,
        "time": NOW,
    }


def test_what_the_server_does_without_is_named_without_making_the_service_unready() -> None:
    warning = "config/config.properties names gone.mar (load_models), but model-store does not hold it"
    pod = a_ready_pod(initializer=an_initializer(ended(0, warning)))

    conditions = status_of(pods=[pod])["conditions"]

    assert conditions[3:] == [
        condition("Ready", "True"),
        condition("Stopped", "False"),
        condition("StorageIncomplete", "True", "StorageWarning", warning),
    ]


def test_an_initializer_that_has_failed_reports_a_failure_and_no_warning() -> None:
    pod = a_pod(initializer=an_initializer(ended(13, "there is no model store")))

    assert [one["type"] for one in status_of(pods=[pod])["conditions"]] == [
        "IngressReady", "PredictorReady", "Progressing", "Ready", "Stopped",
    ]  # fmt: skip


# --- from one status to the next -------------------------------------------------------------------------


def test_a_status_derived_again_is_the_same_to_the_time() -> None:
    seen = {"rollout": STARTING, "pods": [a_crashed_pod()], "failure": CRASH, "log": "line", "ignored": ["spec.x"]}
    first = derive_status(an_observation(**seen), EARLIER)

    again = derive_status(an_observation(service=a_service(status=first.as_dict()), **seen), NOW)

    assert again == first


def test_another_failure_gets_the_time() -> None:
    seen = {"rollout": STARTING, "pods": [a_crashed_pod()]}
    first = derive_status(an_observation(**seen, failure=CRASH), EARLIER)
    service = a_service(status=first.as_dict())

    info = status_of(service=service, **seen, failure=NO_NODE)["modelStatus"]["lastFailureInfo"]

    assert first.model_status is not None
    assert first.model_status.last_failure_info is not None
    assert first.model_status.last_failure_info.time == EARLIER
    assert info["time"] == NOW


def test_a_status_that_kserve_left_behind_is_replaced() -> None:
    left = {
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": EARLIER}],
        "modelStatus": {
            "transitionStatus": "UpToDate",
            "states": {"activeModelState": "Loaded", "targetModelState": "Loaded"},
        },
        "servingRuntimeName": "theirs",
        "observedGeneration": 7,
    }

    status = status_of(service=a_service(status=left))

    assert status["observedGeneration"] == 1
    assert "servingRuntimeName" not in status
    assert {item["type"]: item["lastTransitionTime"] for item in status["conditions"]} == {
        "IngressReady": NOW,
        "PredictorReady": NOW,
        "Progressing": NOW,
        "Ready": EARLIER,
        "Stopped": NOW,
    }


def test_a_runtime_of_the_namespace_is_shown_as_one() -> None:
    service = a_service()
    resolved = resolve(
        service,
        Runtimes(namespaced=(a_runtime(namespace=NAMESPACE),)),
        OperatorConfig(),
        storage=StorageContext(storage_requests(service)),
    )

    status = status_of(service=service, resolved=resolved)

    assert status["servingRuntimeName"] == "kserve-torchserve"
    assert "clusterServingRuntimeName" not in status


# --- messages --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "log", "text"),
    [
        (PodFailure("R", "p", "cause"), "", "pod p: cause"),
        (PodFailure("R", "p", "cause.", "do this"), "", "pod p: cause; do this"),
        (
            PodFailure("R", "p", "cause", container="c", exit_code=0),
            "",
            "pod p, container c ended with exit code 0: cause",
        ),
        (PodFailure("R", "p", "cause", container="c"), "a\nb", "pod p, container c: cause\nLast log lines:\n| a\n| b"),
    ],
)
def test_a_failure_in_full(failure: PodFailure, log: str, text: str) -> None:
    assert explain(failure, log) == text


@pytest.mark.parametrize("reason", ["NoSupportingRuntime", "InvalidCredentials", "ReconcileFailed"])
def test_a_service_that_can_no_longer_be_resolved_keeps_its_addresses(reason: str) -> None:
    service = a_service(status=status_of())

    status = status_of(service=service, resolved=None, problem=Problem(reason, "m"))

    assert {name: status[name] for name in ADDRESSES} == ADDRESSES


@pytest.mark.parametrize("awaited", [{"held": True}, {"problem": Problem("ReconcileFailed", "exceeded quota")}])
def test_a_service_keeps_its_addresses_until_traffic_moves_to_another_component(awaited: dict[str, Any]) -> None:
    renamed = a_service(status=status_of(), predictor={"name": "v2"})

    status = status_of(service=renamed, **awaited)

    assert {name: status[name] for name in ADDRESSES} == ADDRESSES
    assert status_of(service=renamed)["address"]["url"] == "http://torchserve-v2-predictor.models.svc.cluster.local"


def test_a_first_service_that_cannot_be_applied_reports_its_future_addresses() -> None:
    assert {name: status_of(problem=Problem("ReconcileFailed", "m"))[name] for name in ADDRESSES} == ADDRESSES
