"""A diagnosis names the right cause first, with its evidence and its fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from isvc.view.diagnosis import Finding, diagnose
from isvc.view.service import view_of
from isvc.view.source import Related
from isvc.view.values import HealthStatus
from isvc_operator.observe.pods import PodFailure
from tests.support.builders import (
    NOW,
    a_container,
    a_crashed_pod,
    a_deployment,
    a_pod,
    a_ready_pod,
    a_service_body,
    an_initializer,
    ended,
    waiting,
)
from tests.support.failing_pods import FAILING_PODS, POD, PODS_OF_EVENTS
from tests.support.related_objects import a_problem_of, a_related, an_event


def found(related: Related) -> Sequence[Finding]:
    return diagnose(view_of(related)).findings


@pytest.mark.parametrize(("pod", "failure"), FAILING_PODS.values(), ids=FAILING_PODS.keys())
def test_the_first_cause_is_that_of_the_pod(pod: dict[str, Any], failure: PodFailure) -> None:
    diagnosis = diagnose(view_of(a_related(pod)))

    first, *others = diagnosis.findings
    assert (first.reason, first.cause, first.location) == (failure.reason, failure.cause, failure.location)
    assert first.fix
    assert (diagnosis.healthy, others) == (False, [])


@pytest.mark.parametrize(("pod", "events", "failure"), PODS_OF_EVENTS.values(), ids=PODS_OF_EVENTS.keys())
def test_the_first_cause_is_that_of_the_pods_events(
    pod: dict[str, Any], events: list[dict[str, Any]], failure: PodFailure
) -> None:
    related = a_related(pod, deployment=a_deployment(available=0), events=events)

    (first,) = found(related)
    assert (first.reason, first.cause, first.fix) == (failure.reason, failure.cause, failure.fix)
    assert any(failure.cause in item.get("message", "") for item in related.service["status"]["conditions"])


@pytest.mark.parametrize(
    ("related", "reason"),
    [
        (a_problem_of("NoSupportingRuntime", "no runtime serves model format 'pytroch'"), "NoSupportingRuntime"),
        (a_problem_of("InvalidCredentials", "secret x does not exist"), "InvalidCredentials"),
        (a_related(a_pod()), "PreparingPod"),
        (Related(service=a_service_body()), "NotProcessed"),
        (Related(service=a_service_body(generation=2, status=a_related().service["status"])), "NotProcessed"),
        (
            Related(
                service=a_service_body(
                    status={"observedGeneration": 1, "conditions": [{"type": "Stopped", "status": "True"}]}
                )
            ),
            "Stopped",
        ),
    ],
    ids=["a format", "credentials", "a start", "no operator", "an operator that has stopped", "a stop"],
)
def test_the_first_cause_is(related: Related, reason: str) -> None:
    diagnosis = diagnose(view_of(related))

    assert (diagnosis.findings[0].reason, diagnosis.healthy) == (reason, False)
    assert diagnosis.findings[0].fix


def test_a_service_that_serves_is_healthy() -> None:
    diagnosis = diagnose(view_of(a_related()))

    assert (diagnosis.health, diagnosis.healthy, diagnosis.findings) == (HealthStatus.READY, True, [])


def test_a_service_that_serves_without_some_settings_is_healthy_and_says_so() -> None:
    diagnosis = diagnose(view_of(a_related(ignored=["spec.predictor.model.storageURl"])))

    assert diagnosis.healthy
    assert diagnosis.findings == [
        Finding(
            reason="FieldsIgnored",
            cause="Ignored: spec.predictor.model.storageURl",
            fix="correct or remove these fields",
            evidence=[],
        )
    ]


def test_a_component_without_pods_is_named_of_a_service_that_is_ready() -> None:
    """Its condition is True, as with KServe: an autoscaler may have removed its pods."""
    related = a_related(deployment=a_deployment(replicas=0, updated=0, total=0, available=0))

    diagnosis = diagnose(view_of(replace(related, pods=())))
    assert diagnosis.healthy
    (finding,) = diagnosis.findings
    assert (finding.reason, finding.cause, finding.fix) == (
        "ScaledToZero",
        "the predictor torchserve-predictor is scaled to zero: it has no pod that serves requests",
        "let its autoscaler add pods, or kubectl scale deployment torchserve-predictor --replicas=1",
    )


def test_the_evidence_is_what_happened_to_the_pod() -> None:
    restarted = a_container(state=waiting("CrashLoopBackOff"), before=ended(1, "boom"))
    pod = a_pod(initializer=an_initializer(), containers=[{**restarted, "restartCount": 7}])
    events = [
        an_event("Pulled", "is present"),
        {**an_event("BackOff", "restarting it", type_="Warning"), "count": 12},
        an_event("BackOff", "of another", about="Pod/other", type_="Warning"),
    ]

    (finding,) = found(a_related(pod, events=events, logs={(POD, "kserve-container"): "last line"}))

    assert (finding.log, finding.exit_code) == ("last line", 1)
    assert finding.evidence == [
        "container kserve-container was restarted 7 times",
        f"{NOW} BackOff: restarting it (12 times)",
    ]


def test_pods_that_fail_for_the_same_reason_are_one_finding_and_others_come_after_it() -> None:
    first, second = a_crashed_pod("pod-2"), a_crashed_pod("pod-1")
    other = a_pod("pod-0", containers=[a_container(state=waiting("ImagePullBackOff", "no such image"))])
    deployment = a_deployment(replicas=3, updated=3, total=3, available=0)

    findings = found(a_related(first, second, other, deployment=deployment))

    assert [(item.reason, item.location) for item in findings] == [
        ("ServerFailed", "pod pod-2, container kserve-container"),
        ("ImagePullFailed", "pod pod-0, container kserve-container"),
    ]


def test_pods_of_an_older_template_are_no_cause() -> None:
    old = a_crashed_pod("old", template="0", created="2026-01-01T09:00:00Z")

    assert found(replace(a_related(), pods=[a_ready_pod(), old])) == []
