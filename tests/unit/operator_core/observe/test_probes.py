"""A container that a probe has ended has the probe as its cause, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.observe.pod_events import with_probe
from isvc_operator.observe.pods import first_failure
from tests.support.failing_pods import ENDED, STARTED, a_killed_pod, of_the_kubelet

FAILED = "Liveness probe failed: HTTP probe failed with statuscode: 503"
KILLED = "Container kserve-container failed liveness probe, will be restarted"
BEFORE, AFTER = "2026-01-01T11:20:00Z", "2026-01-01T11:40:00Z"


def cause(exit_code: int, *events: dict[str, Any]) -> str:
    failure = first_failure([a_killed_pod(exit_code)])
    assert failure
    return with_probe(failure, events).cause


@pytest.mark.parametrize(
    "event",
    [
        of_the_kubelet("Unhealthy", FAILED, last=AFTER),
        of_the_kubelet("Killing", KILLED, first=BEFORE, last=BEFORE),
        of_the_kubelet("Unhealthy", "Liveness probe errored: rpc error: the runtime is gone"),
        of_the_kubelet("Unhealthy", "Liveness probe failed 3 times: 503"),
        {**of_the_kubelet("Unhealthy", FAILED), "involvedObject": {"kind": "Pod", "name": "p"}},
        {**of_the_kubelet("Unhealthy", FAILED), "lastTimestamp": None, "eventTime": "2026-01-01T11:30:50.000001Z"},
    ],
    ids=[
        "repeated for the next instance",
        "not repeated for this instance",
        "no response of a runtime",
        "on a laptop",
        "of a container that is not named",
        "in the newer form",
    ],
)
def test_an_event_counts_that_is(event: dict[str, Any]) -> None:
    assert cause(143, event).startswith("it was killed after its liveness probe failed")


@pytest.mark.parametrize(
    ("exit_code", "event"),
    [
        (143, of_the_kubelet("Unhealthy", "Readiness probe failed: connection refused")),
        (143, of_the_kubelet("Unhealthy", FAILED, of="proxy")),
        (143, of_the_kubelet("Unhealthy", FAILED, first=BEFORE, last=STARTED)),
        (143, of_the_kubelet("Unhealthy", FAILED, first=AFTER, last=AFTER)),
        (143, of_the_kubelet("Killing", "Stopping container kserve-container")),
        (143, {**of_the_kubelet("Killing", KILLED), "lastTimestamp": "yesterday"}),
        (143, of_the_kubelet("BackOff", FAILED)),
        (1, of_the_kubelet("Unhealthy", FAILED)),
    ],
    ids=[
        "of a readiness probe",
        "of another container",
        "of an instance before",
        "of the next instance",
        "of another end",
        "without a time",
        "of another reason",
        "beside the server's own end",
    ],
)
def test_an_event_does_not_count_that_is(exit_code: int, event: dict[str, Any]) -> None:
    assert cause(exit_code, event) == cause(exit_code)


def test_the_last_check_of_the_probe_that_ended_it_is_its_evidence() -> None:
    events = [
        of_the_kubelet("Unhealthy", "Startup probe failed: refused", last="2026-01-01T11:30:10Z"),
        of_the_kubelet("Unhealthy", "Liveness probe failed: timed out", last="2026-01-01T11:30:40Z"),
        of_the_kubelet("Unhealthy", FAILED),
        of_the_kubelet("Killing", KILLED, last=ENDED),
    ]

    assert cause(137, *events) == (
        "it was killed after its liveness probe failed: HTTP probe failed with statuscode: 503"
    )


def test_what_a_server_responds_to_a_probe_is_bounded_and_one_line() -> None:
    found = cause(143, of_the_kubelet("Unhealthy", "Liveness probe failed: " + "no\n" * 10_000))

    assert "\n" not in found
    assert len(found.encode()) < 5_000


def test_a_server_without_enough_memory_is_not_ended_by_a_probe() -> None:
    pod = a_killed_pod(137)
    pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] = "OOMKilled"
    failure = first_failure([pod])

    assert failure
    assert with_probe(failure, [of_the_kubelet("Unhealthy", FAILED)]) == failure


def test_a_server_that_has_ended_for_a_cause_of_its_own_is_not_blamed_on_its_probe() -> None:
    failure = first_failure([a_killed_pod(1, "bert: no licence")])

    assert failure
    assert with_probe(failure, [of_the_kubelet("Unhealthy", "Readiness probe failed: 503")]) == failure
