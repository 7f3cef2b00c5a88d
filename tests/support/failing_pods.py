"""Pods that do not become ready, as the kubelet and the scheduler describe them, and the failure of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from isvc_operator.observe.pods import PodFailure
from tests.support.builders import NOW, a_container, a_crashed_pod, a_pod, an_initializer, ended, running, waiting
from tests.support.related_objects import an_event

POD = "torchserve-predictor-1-a"
AS_ROOT = "container has runAsNonRoot and image will run as root"


def unschedulable(message: str) -> dict[str, str]:
    return {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}


LOST = PodFailure(
    reason="ReadinessLost",
    pod=POD,
    cause=f"it was ready until {NOW}, and its readiness probe has failed since",
    fix="see in its last log lines why it does not respond; delete the pod to have it replaced",
    container="kserve-container",
    has_log=True,
    attempt=NOW,
    heals=True,
)


def a_pod_that_was_ready(*, is_ready: bool = False) -> dict[str, Any]:
    """A pod that became ready, and later not ready; its container may be ready as far as its node has said."""
    server = a_container(is_ready=is_ready)
    return a_pod(phase="Running", since=NOW, initializer=an_initializer(), containers=[server])


FAILING_PODS: dict[str, tuple[dict[str, Any], PodFailure]] = {
    "a server that does not respond any more": (a_pod_that_was_ready(), LOST),
    "a node that does not report any more": (
        a_pod_that_was_ready(is_ready=True),
        PodFailure(
            reason="NodeNotReady",
            pod=POD,
            cause=f"the pod counts as not ready since {NOW}, because its node node-1 does not report to the API server",
            fix=(
                "see kubectl describe node node-1; if it does not come back, Kubernetes replaces its pods after five "
                "minutes"
            ),
            heals=True,
        ),
    ),
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
            fix="create the PersistentVolumeClaim leeway in the service's namespace, or correct storageUri",
        ),
    ),
    "a claim without a volume": (
        a_pod(node=None, conditions=[unschedulable("pod has unbound immediate PersistentVolumeClaims")]),
        PodFailure(
            reason="ClaimNotBound",
            pod=POD,
            cause="pod has unbound immediate PersistentVolumeClaims",
            fix="see kubectl describe pvc; the claim needs a PersistentVolume or a StorageClass that provisions one",
            heals=True,
        ),
    ),
    "no node with enough cpu": (
        a_pod(node=None, conditions=[unschedulable("0/3 nodes are available: 3 Insufficient cpu.")]),
        PodFailure(
            reason="Unschedulable",
            pod=POD,
            cause="0/3 nodes are available: 3 Insufficient cpu.",
            fix="lower resources.requests (a model without any has its runtime's: set them), correct nodeSelector and "
            "tolerations, or add a node",
            heals=True,
        ),
    ),
    "a node that is cordoned": (
        a_pod(
            node=None,
            conditions=[unschedulable("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.")],
        ),
        PodFailure(
            reason="Unschedulable",
            pod=POD,
            cause="0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.",
            fix="kubectl uncordon a node that is cordoned; or lower resources.requests (a model without any has its "
            "runtime's: set them), correct nodeSelector and tolerations, or add a node",
            heals=True,
        ),
    ),
    "an image that cannot be pulled": (
        a_pod(containers=[a_container(state=waiting("ImagePullBackOff", 'Back-off pulling image "torchserv:1"'))]),
        PodFailure(
            reason="ImagePullFailed",
            pod=POD,
            cause='ImagePullBackOff: Back-off pulling image "torchserv:1"',
            fix="check the image's name, its registry and imagePullSecrets",
            container="kserve-container",
        ),
    ),
    "an image of the initializer that is not on the node": (
        a_pod(initializer=an_initializer(waiting("ErrImageNeverPull"))),
        PodFailure(
            reason="ImagePullFailed",
            pod=POD,
            cause="ErrImageNeverPull",
            fix="check the image's name, its registry and imagePullSecrets",
            container="storage-initializer",
        ),
    ),
    "a secret that does not exist": (
        a_pod(containers=[a_container(state=waiting("CreateContainerConfigError", 'secret "keys" not found'))]),
        PodFailure(
            reason="ContainerConfigInvalid",
            pod=POD,
            cause='CreateContainerConfigError: secret "keys" not found',
            fix="check env, envFrom, volumes and command of the container",
            container="kserve-container",
        ),
    ),
    "an image of root": (
        a_pod(containers=[a_container(state=waiting("CreateContainerConfigError", AS_ROOT))]),
        PodFailure(
            reason="ContainerConfigInvalid",
            pod=POD,
            cause=f"CreateContainerConfigError: {AS_ROOT}",
            fix="write a number other than 0 after USER in the image's Dockerfile, or set "
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
            fix="check env, envFrom, volumes and command of the container",
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
            fix="raise limits.memory in the service's annotation storage.isvc-operator.io/resources, "
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
            fix="see its log: isvc logs torchserve",
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
            fix="see its log: isvc logs torchserve",
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
            fix="raise resources.limits.memory",
            container="kserve-container",
            exit_code=137,
            has_log=True,
            previous=True,
            attempt="containerd://big",
        ),
    ),
    "a server that a signal has ended": (
        a_pod(
            phase="Running",
            initializer=an_initializer(),
            containers=[a_container(state=waiting("CrashLoopBackOff"), before=ended(137, "GET / 200", instance="two"))],
        ),
        PodFailure(
            reason="ServerFailed",
            pod=POD,
            cause="SIGKILL ended it: GET / 200",
            fix=f"see whether its liveness or startup probe failed: kubectl describe pod {POD}",
            container="kserve-container",
            exit_code=137,
            has_log=True,
            previous=True,
            attempt="containerd://two",
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
        PodFailure(reason="Evicted", pod=POD, cause="The node was low on resource: memory.", heals=True),
    ),
    "an unknown end of the pod": (
        a_pod(phase="Failed"),
        PodFailure(reason="PodFailed", pod=POD, cause="the pod has failed", heals=True),
    ),
}


STARTED, ENDED = "2026-01-01T11:30:00Z", "2026-01-01T11:31:00Z"
LIFETIME = (STARTED, ENDED)
RESPOND = (
    "see in its last log lines why it did not respond, or raise timeoutSeconds or failureThreshold of its livenessProbe"
)
START = (
    "see in its last log lines why it did not start, or raise failureThreshold of its startupProbe if it needs longer"
)


def ended_between(started: str, finished: str, exit_code: int, message: str | None = None) -> dict[str, Any]:
    state = ended(exit_code, message, instance="two")
    return {"terminated": {**state["terminated"], "startedAt": started, "finishedAt": finished}}


def a_killed_pod(exit_code: int, message: str | None = None) -> dict[str, Any]:
    """A pod whose server runs again after the one before it has ended."""
    server = a_container(before=ended_between(STARTED, ENDED, exit_code, message))
    return a_pod(phase="Running", initializer=an_initializer(), containers=[server])


def of_the_kubelet(
    reason: str, message: str, *, first: str = STARTED, last: str = "2026-01-01T11:30:50Z", of: str = "kserve-container"
) -> dict[str, Any]:
    """An Event on a container of the pod."""
    event = an_event(reason, message, type_="Normal" if reason == "Killing" else "Warning", at=last)
    involved = {**event["involvedObject"], "fieldPath": f"spec.containers{{{of}}}"}
    return {**event, "involvedObject": involved, "firstTimestamp": first}


def by_a_probe(exit_code: int, cause: str, fix: str) -> PodFailure:
    return PodFailure(
        reason="ServerFailed",
        pod=POD,
        cause=cause,
        fix=fix,
        container="kserve-container",
        exit_code=exit_code,
        has_log=True,
        previous=True,
        attempt="containerd://two",
        lifetime=LIFETIME,
    )


# Those whose cause only the Events of the pod have.
PODS_OF_EVENTS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], PodFailure]] = {
    "a server that a liveness probe has ended": (
        a_killed_pod(143, "INFO: GET /v1/models 200"),
        [
            of_the_kubelet("Unhealthy", "Readiness probe failed: connection refused", last=ENDED),
            {
                **of_the_kubelet("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 503"),
                "metadata": {"name": "liveness", "namespace": "models"},
            },
        ],
        by_a_probe(
            143, "it was killed after its liveness probe failed: HTTP probe failed with statuscode: 503", RESPOND
        ),
    ),
    "a server that does not respond to its readiness probe any more": (
        a_pod_that_was_ready(),
        [of_the_kubelet("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")],
        replace(LOST, cause=f"{LOST.cause}: HTTP probe failed with statuscode: 503"),
    ),
    "a server that a startup probe has ended": (
        a_killed_pod(137),
        [of_the_kubelet("Unhealthy", "Startup probe failed: dial tcp 10.0.0.1:8080: connect: connection refused")],
        by_a_probe(
            137,
            "it was killed after its startup probe failed: dial tcp 10.0.0.1:8080: connect: connection refused",
            START,
        ),
    ),
    "a server that a liveness probe has ended, and that exits by itself then": (
        a_killed_pod(0),
        [of_the_kubelet("Killing", "Container kserve-container failed liveness probe, will be restarted")],
        by_a_probe(0, "it was killed after its liveness probe failed", RESPOND),
    ),
}
