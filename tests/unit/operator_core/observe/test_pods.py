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

POD = "torchserve-predictor-1-a"
AS_ROOT = "container has runAsNonRoot and image will run as root"


def unschedulable(message: str) -> dict[str, str]:
    return {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}


# --- which pods count --------------------------------------------------------------------------------


def test_only_pods_of_the_newest_pods_template_count_newest_first() -> None:
    old = a_ready_pod("old", template="1", created="2026-01-01T10:00:00Z")
    first = a_pod("first", template="2", created="2026-01-01T11:00:00Z")
    second = a_pod("second", template="2", created="2026-01-01T11:30:00Z")

    assert newest_revision([first, old, second]) == [second, first]


def test_of_pods_made_at_the_same_time_the_last_by_name_comes_first() -> None:
    a, b = a_pod("a"), a_pod("b")

    assert newest_revision([a, b]) == [b, a]


def test_pods_that_are_being_deleted_do_not_count_even_if_they_are_the_newest() -> None:
    staying = a_ready_pod("staying", template="1")
    leaving = a_pod("leaving", template="2", created=NOW, deleted=NOW)

    assert newest_revision([staying, leaving]) == [staying]


def test_a_pod_that_has_ended_for_good_does_not_count_beside_its_successor() -> None:
    evicted = a_pod("evicted", phase="Failed", reason="Evicted")
    successor = a_pod("successor", created=NOW)

    assert newest_revision([evicted, successor]) == [successor]


def test_a_pod_that_has_ended_for_good_counts_where_it_is_the_only_one() -> None:
    evicted = a_pod("evicted", phase="Failed", reason="Evicted")

    assert newest_revision([evicted]) == [evicted]


def test_no_pods_are_no_revision() -> None:
    assert newest_revision([]) == []


@pytest.mark.parametrize(
    ("pod", "ready"), [(a_ready_pod(), True), (a_pod(), False), ({"metadata": {"name": "new"}}, False)]
)
def test_a_pod_is_ready_when_its_own_condition_says_so(pod: dict[str, Any], ready: bool) -> None:
    assert is_ready(pod) is ready


# --- failures ----------------------------------------------------------------------------------------

FAILURES: dict[str, tuple[dict[str, Any], PodFailure]] = {
    "a claim that does not exist": (
        a_pod(
            node=None,
            conditions=[
                unschedulable(
                    '0/1 nodes are available: persistentvolumeclaim "leeway" not found. preemption: not helpful'
                )
            ],
        ),
        PodFailure(
            reason="ClaimNotFound",
            pod=POD,
            cause="PersistentVolumeClaim leeway does not exist",
            cure="create the PersistentVolumeClaim leeway in the service's namespace, or correct storageUri",
        ),
    ),
    "a claim without a volume": (
        a_pod(node=None, conditions=[unschedulable("pod has unbound immediate PersistentVolumeClaims")]),
        PodFailure(
            reason="ClaimNotBound",
            pod=POD,
            cause="pod has unbound immediate PersistentVolumeClaims",
            cure="see kubectl describe pvc; the claim needs a PersistentVolume or a StorageClass that provisions one",
        ),
    ),
    "no node with enough cpu": (
        a_pod(node=None, conditions=[unschedulable("0/3 nodes are available: 3 Insufficient cpu.")]),
        PodFailure(
            reason="Unschedulable",
            pod=POD,
            cause="0/3 nodes are available: 3 Insufficient cpu.",
            cure="lower resources.requests, correct nodeSelector and tolerations, or add a node",
        ),
    ),
    "an image that cannot be pulled": (
        a_pod(containers=[a_container(state=waiting("ImagePullBackOff", 'Back-off pulling image "torchserv:1"'))]),
        PodFailure(
            reason="ImagePullFailed",
            pod=POD,
            cause='ImagePullBackOff: Back-off pulling image "torchserv:1"',
            cure="check the image's name, its registry and imagePullSecrets",
            container="kserve-container",
        ),
    ),
    "an image of the initializer that is not on the node": (
        a_pod(initializer=an_initializer(waiting("ErrImageNeverPull"))),
        PodFailure(
            reason="ImagePullFailed",
            pod=POD,
            cause="ErrImageNeverPull",
            cure="check the image's name, its registry and imagePullSecrets",
            container="storage-initializer",
        ),
    ),
    "a secret that does not exist": (
        a_pod(containers=[a_container(state=waiting("CreateContainerConfigError", 'secret "keys" not found'))]),
        PodFailure(
            reason="ContainerConfigInvalid",
            pod=POD,
            cause='CreateContainerConfigError: secret "keys" not found',
            cure="check env, envFrom, volumes and command of the container",
            container="kserve-container",
        ),
    ),
    "an image of root": (
        a_pod(containers=[a_container(state=waiting("CreateContainerConfigError", AS_ROOT))]),
        PodFailure(
            reason="ContainerConfigInvalid",
            pod=POD,
            cause=f"CreateContainerConfigError: {AS_ROOT}",
            cure="write a number other than 0 after USER in the image's Dockerfile, or set "
            "securityContext.runAsNonRoot: false on the container",
            container="kserve-container",
        ),
    ),
    "a command that does not exist": (
        a_pod(
            containers=[a_container(state=waiting("RunContainerError", 'exec: "serv": not found'), before=ended(127))]
        ),
        PodFailure(
            reason="ContainerConfigInvalid",
            pod=POD,
            cause='RunContainerError: exec: "serv": not found',
            cure="check env, envFrom, volumes and command of the container",
            container="kserve-container",
        ),
    ),
    "an initializer that has just ended": (
        a_pod(initializer=an_initializer(ended(3, "config/config.properties is missing\n", instance="i1"))),
        PodFailure(
            reason="StorageInitializerFailed",
            pod=POD,
            cause="config/config.properties is missing",
            container="storage-initializer",
            exit_code=3,
            has_log=True,
            previous=False,
            attempt="containerd://i1",
        ),
    ),
    "an initializer that waits to be tried again": (
        a_pod(initializer=an_initializer(waiting("CrashLoopBackOff"), before=ended(3, "no claim", instance="i1"))),
        PodFailure(
            reason="StorageInitializerFailed",
            pod=POD,
            cause="no claim",
            container="storage-initializer",
            exit_code=3,
            has_log=True,
            previous=True,
            attempt="containerd://i1",
        ),
    ),
    "an initializer that runs again after it has failed": (
        a_pod(initializer=an_initializer(running(), before=ended(3, "no claim", instance="i1"))),
        PodFailure(
            reason="StorageInitializerFailed",
            pod=POD,
            cause="no claim",
            container="storage-initializer",
            exit_code=3,
            has_log=True,
            previous=True,
            attempt="containerd://i1",
        ),
    ),
    "an initializer without enough memory": (
        a_pod(initializer=an_initializer(ended(137, reason="OOMKilled", instance="i1"))),
        PodFailure(
            reason="StorageInitializerFailed",
            pod=POD,
            cause="the container used more memory than its limit",
            cure="raise limits.memory in the service's annotation storage.isvc-operator.io/resources, "
            "or memoryLimit of storageInitializer in the ConfigMap inferenceservice-config",
            container="storage-initializer",
            exit_code=137,
            has_log=True,
            attempt="containerd://i1",
        ),
    ),
    "a server that has just crashed": (
        a_crashed_pod(exit_code=1),
        PodFailure(
            reason="ServerFailed",
            pod=POD,
            cause="ValueError: no such layer",
            container="kserve-container",
            exit_code=1,
            has_log=True,
            previous=False,
            attempt="containerd://one",
        ),
    ),
    "a server that crashes again and again": (
        a_pod(
            initializer=an_initializer(),
            containers=[
                a_container(state=waiting("CrashLoopBackOff", "back-off 5m0s"), before=ended(1, instance="seven"))
            ],
        ),
        PodFailure(
            reason="ServerFailed",
            pod=POD,
            cause="it left no message",
            container="kserve-container",
            exit_code=1,
            has_log=True,
            previous=True,
            attempt="containerd://seven",
        ),
    ),
    "a server that runs again and is not ready yet": (
        a_pod(
            phase="Running",
            initializer=an_initializer(),
            containers=[a_container(state=running(), before=ended(1, "boom", instance="seven"))],
        ),
        PodFailure(
            reason="ServerFailed",
            pod=POD,
            cause="boom",
            container="kserve-container",
            exit_code=1,
            has_log=True,
            previous=True,
            attempt="containerd://seven",
        ),
    ),
    "a server that ends without an error": (
        a_pod(
            initializer=an_initializer(),
            containers=[a_container(state=waiting("CrashLoopBackOff"), before=ended(0, instance="two"))],
        ),
        PodFailure(
            reason="ServerFailed",
            pod=POD,
            cause="the server has exited, but should keep running",
            container="kserve-container",
            exit_code=0,
            has_log=True,
            previous=True,
            attempt="containerd://two",
        ),
    ),
    "a server without enough memory": (
        a_pod(
            initializer=an_initializer(),
            containers=[
                a_container(state=waiting("CrashLoopBackOff"), before=ended(137, reason="OOMKilled", instance="big"))
            ],
        ),
        PodFailure(
            reason="ServerFailed",
            pod=POD,
            cause="the container used more memory than its limit",
            cure="raise resources.limits.memory",
            container="kserve-container",
            exit_code=137,
            has_log=True,
            previous=True,
            attempt="containerd://big",
        ),
    ),
    "a node without enough memory": (
        a_pod(
            phase="Failed",
            reason="Evicted",
            message="The node was low on resource: memory.",
            initializer=an_initializer(),
            containers=[a_container(state=ended(137))],
        ),
        PodFailure(reason="Evicted", pod=POD, cause="The node was low on resource: memory."),
    ),
    "an unknown end of the pod": (
        a_pod(phase="Failed"),
        PodFailure(reason="PodFailed", pod=POD, cause="the pod has failed"),
    ),
}


@pytest.mark.parametrize(("pod", "failure"), FAILURES.values(), ids=FAILURES.keys())
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
    "no pod": ([], Stage("CreatingPod", "Waiting for the Deployment controller to create the pod")),
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
        Stage("PreparingPod", f"pod {POD}: volumes and images are being prepared"),
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
    "one is ready, the other is not": (
        [a_ready_pod("ready"), a_pod("starting", initializer=an_initializer(running()))],
        Stage("LoadingModel", "pod starting: the storage-initializer is copying the model"),
    ),
}


@pytest.mark.parametrize(("pods", "expected"), STAGES.values(), ids=STAGES.keys())
def test_the_stage_when(pods: list[dict[str, Any]], expected: Stage) -> None:
    assert stage(pods) == expected
