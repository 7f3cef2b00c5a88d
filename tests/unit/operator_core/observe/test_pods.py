"""What stops a pod, how far a starting one has come, and which pods count."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.observe.pods import PodFailure, Stage, first_failure, is_ready, newest_revision, stage
from tests.support.builders import (
    NOW,
    a_container,
    a_crashed_pod,
    a_pod,
    a_ready_pod,
    an_initializer,
    ended,
    running,
    waiting,
)
from tests.support.failing_pods import FAILING_PODS, POD, unschedulable

# --- which pods count --------------------------------------------------------------------------------


OLD = a_ready_pod("old", template="1", created="2026-01-01T10:00:00Z")
FIRST = a_pod("first", template="2", created="2026-01-01T11:00:00Z")
SECOND = a_pod("second", template="2", created="2026-01-01T11:30:00Z")
LEAVING = a_pod("leaving", template="2", created=NOW, deleted=NOW)
EVICTED = a_pod("evicted", phase="Failed", reason="Evicted")
SUCCESSOR = a_pod("successor", created=NOW)


@pytest.mark.parametrize(
    ("pods", "counted"),
    [
        ([FIRST, OLD, SECOND], [SECOND, FIRST]),
        ([a_pod("a"), a_pod("b")], [a_pod("b"), a_pod("a")]),
        ([OLD, LEAVING], [OLD]),
        ([EVICTED, SUCCESSOR], [SUCCESSOR]),
        ([EVICTED], [EVICTED]),
        ([], []),
    ],
    ids=[
        "of the newest template, newest first",
        "of pods made at the same time the last by name first",
        "none that is being deleted",
        "none that has ended for good beside its successor",
        "one that has ended for good if it is the only one",
        "none",
    ],
)
def test_pods_that_count(pods: list[dict[str, Any]], counted: list[dict[str, Any]]) -> None:
    assert newest_revision(pods) == counted


@pytest.mark.parametrize(
    ("pod", "ready"), [(a_ready_pod(), True), (a_pod(), False), ({"metadata": {"name": "new"}}, False)]
)
def test_a_pod_is_ready_when_its_own_condition_says_so(pod: dict[str, Any], ready: bool) -> None:
    assert is_ready(pod) is ready


# --- failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pod", "failure"), FAILING_PODS.values(), ids=FAILING_PODS.keys())
def test_a_pod_is_stopped_by(pod: dict[str, Any], failure: PodFailure) -> None:
    assert first_failure([pod]) == failure


@pytest.mark.parametrize(
    ("waits_for", "reason"),
    [
        ("ErrImagePull", "ImagePullFailed"),
        ("ImagePullBackOff", "ImagePullFailed"),
        ("InvalidImageName", "ImagePullFailed"),
        ("ErrImageNeverPull", "ImagePullFailed"),
        ("CreateContainerConfigError", "ContainerConfigInvalid"),
        ("CreateContainerError", "ContainerConfigInvalid"),
        ("RunContainerError", "ContainerConfigInvalid"),
    ],
)
def test_every_reason_to_wait_that_does_not_pass_by_itself_is_a_failure(waits_for: str, reason: str) -> None:
    failure = first_failure([a_pod(containers=[a_container(state=waiting(waits_for))])])

    assert failure is not None
    assert (failure.reason, failure.cause) == (reason, waits_for)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ('persistentvolumeclaim "leeway" not found', "ClaimNotFound"),
        ("pod has unbound immediate PersistentVolumeClaims", "ClaimNotBound"),
        ("1 node(s) didn't find available persistent volumes to bind", "ClaimNotBound"),
        ('persistentvolumeclaim "leeway" bound to non-existent persistentvolume "pv-1"', "ClaimNotBound"),
        ("1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", "ClaimNotBound"),
        (
            "1 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
            "ClaimInUse",
        ),
        (
            "1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
            "another pod",
            "ClaimInUse",
        ),
        ("1 node(s) had volume node affinity conflict", "ClaimElsewhere"),
        ("1 node(s) didn't match PersistentVolume's node affinity", "ClaimElsewhere"),
        ("1 node(s) had no available volume zone", "ClaimElsewhere"),
        ("1 node(s) didn't match Pod's node affinity/selector", "Unschedulable"),
        ("1 node(s) exceed max volume count", "Unschedulable"),
    ],
)
def test_what_schedulers_of_each_version_say_of_a_claim_has_the_claims_reason(message: str, reason: str) -> None:
    failure = first_failure([a_pod(node=None, conditions=[unschedulable(f"0/1 nodes are available: {message}.")])])

    assert failure is not None
    assert failure.reason == reason


HEALTHY: dict[str, dict[str, Any]] = {
    "just made": a_pod(node=None),
    "without any status": {"metadata": {"name": POD}},
    "not scheduled yet, for no reason given": a_pod(
        node=None, conditions=[{"type": "PodScheduled", "status": "False"}]
    ),
    "creating its containers": a_pod(containers=[a_container(state=waiting("ContainerCreating"))]),
    "copying the model": a_pod(initializer=an_initializer(running())),
    "starting the server": a_pod(initializer=an_initializer(), containers=[a_container()]),
    "past an initializer that failed at first": a_pod(
        initializer=an_initializer(ended(0), before=ended(3)), containers=[a_container()]
    ),
    "ready again after a crash": a_ready_pod(containers=[a_container(before=ended(1))]),
}


@pytest.mark.parametrize("pod", HEALTHY.values(), ids=HEALTHY.keys())
def test_nothing_stops_a_pod_that_is(pod: dict[str, Any]) -> None:
    assert first_failure([pod]) is None


def test_the_first_pod_that_fails_is_reported() -> None:
    fine, first, second = a_ready_pod("fine"), a_crashed_pod("first"), a_crashed_pod("second")

    failure = first_failure([fine, first, second])

    assert failure is not None
    assert failure.pod == "first"


def test_the_initializers_failure_is_reported_before_what_waits_for_it() -> None:
    pod = a_pod(initializer=an_initializer(ended(3)), containers=[a_container(state=waiting("ImagePullBackOff"))])

    failure = first_failure([pod])

    assert failure is not None
    assert failure.container == "storage-initializer"


def test_an_image_without_a_model_is_a_failure_of_storage() -> None:
    said = "the image has no folder /models; build it with the model there"
    statuses = [a_container("modelcar", running()), a_container("modelcar-init", ended(1, said))]

    failure = first_failure([a_pod(initContainerStatuses=statuses)])

    assert failure is not None
    assert (failure.reason, failure.container, failure.cause) == ("StorageInitializerFailed", "modelcar-init", said)


@pytest.mark.parametrize(("container", "location"), [(None, "pod p"), ("c", "pod p, container c")])
def test_the_location_of_a_failure(container: str | None, location: str) -> None:
    assert PodFailure("R", "p", "cause", container=container).location == location


# --- stages ------------------------------------------------------------------------------------------

STAGES: dict[str, tuple[list[dict[str, Any]], Stage]] = {
    "no pod": ([], Stage("WaitingForDeployment", "Waiting for the Deployment controller")),
    "no node": ([a_pod(node=None)], Stage("Scheduling", f"pod {POD}: waiting for a node")),
    "a node, and nothing runs": (
        [a_pod(initializer=an_initializer(waiting("PodInitializing")))],
        Stage("PreparingPod", f"pod {POD}: volumes and images are being prepared"),
    ),
    "the initializer runs": (
        [a_pod(initializer=an_initializer(running()))],
        Stage("LoadingModel", f"pod {POD}: the storage-initializer is copying the model"),
    ),
    "the initializer has ended": (
        [a_pod(initializer=an_initializer(), containers=[a_container(state=waiting("PodInitializing"))])],
        Stage("StartingServer", f"pod {POD}: the server's image is pulled, and its container created"),
    ),
    "the server runs": (
        [a_pod(initializer=an_initializer(), containers=[a_container()])],
        Stage("StartingServer", f"pod {POD}: the server is starting and loading the model"),
    ),
    "a transformer that runs": (
        [a_pod(component="transformer", initializer=an_initializer(), containers=[a_container()])],
        Stage("StartingServer", f"pod {POD}: the transformer is not ready yet"),
    ),
    "the furthest of several": (
        [a_pod("behind", node=None), a_pod("ahead", initializer=an_initializer(running()))],
        Stage("LoadingModel", "pod ahead: the storage-initializer is copying the model"),
    ),
    "a ready pod that its Deployment does not count yet": (
        [a_ready_pod()],
        Stage("WaitingForDeployment", "Waiting for the Deployment controller"),
    ),
    "one is ready, the other is not": (
        [a_ready_pod("ready"), a_pod("starting", initializer=an_initializer(running()))],
        Stage("LoadingModel", "pod starting: the storage-initializer is copying the model"),
    ),
}


@pytest.mark.parametrize(("pods", "expected"), STAGES.values(), ids=STAGES.keys())
def test_the_stage_when(pods: list[dict[str, Any]], expected: Stage) -> None:
    assert stage(pods) == expected
