"""Pods that do not become ready, as the kubelet and the scheduler describe them, and the failure of each."""

from __future__ import annotations

from typing import Any

from isvc_operator.observe.pods import PodFailure
from tests.support.builders import a_container, a_crashed_pod, a_pod, an_initializer, ended, running, waiting

POD = "torchserve-predictor-1-a"
AS_ROOT = "container has runAsNonRoot and image will run as root"


def unschedulable(message: str) -> dict[str, str]:
    return {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}


FAILING_PODS: dict[str, tuple[dict[str, Any], PodFailure]] = {
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
