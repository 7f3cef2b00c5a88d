"""What the pods of the newest revision are doing: the stage they have reached, or what stops them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isvc_operator.api.names import CONTAINER_INITIALIZER

Pod = Mapping[str, Any]

_TEMPLATE_HASH = "pod-template-hash"
_PULL_FAILURES = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_CONFIG_FAILURES = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


@dataclass(frozen=True)
class Failure:
    """What stops a pod. ``container`` and ``exit_code`` are None where it did not get so far.

    ``cause`` is what Kubernetes or the container said; ``cure`` is what to do about it.
    ``previous`` tells whether the log to read is that of the instance before the last restart; ``attempt`` tells
    one instance of the container from the next.
    """

    reason: str
    pod: str
    cause: str
    cure: str = ""
    container: str | None = None
    exit_code: int | None = None
    has_log: bool = False
    previous: bool = False
    attempt: str = ""

    @property
    def location(self) -> str:
        """Where it happened, in words."""
        return f"pod {self.pod}" + (f", container {self.container}" if self.container else "")


@dataclass(frozen=True)
class Stage:
    """How far a starting pod has come."""

    reason: str
    message: str


def newest_revision(pods: Iterable[Pod]) -> list[Pod]:
    """Pods of the template that the newest pod has, newest first; those on their way out are left aside."""
    living = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    newest_first = sorted(
        living,
        key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]),
        reverse=True,
    )
    return [pod for pod in newest_first if _template(pod) == _template(newest_first[0])]


def is_ready(pod: Pod) -> bool:
    """Whether the pod's own condition says so."""
    return any(item["type"] == "Ready" and item["status"] == "True" for item in _status(pod, "conditions"))


def first_failure(pods: Sequence[Pod]) -> Failure | None:
    """The failure of the first pod that has one; a pod that is ready has none."""
    for pod in pods:
        if is_ready(pod):
            continue
        for failure in _failures(pod):
            return failure
    return None


def stage(pods: Sequence[Pod]) -> Stage:
    """The stage of the furthest pod."""
    if not pods:
        return Stage("CreatingPod", "Waiting for the Deployment controller to create the pod")
    return max((_stage_of(pod) for pod in pods), key=lambda item: _STAGES.index(item.reason))


# In the order in which a pod goes through them.
_STAGES = ("Scheduling", "PreparingPod", "LoadingModel", "StartingServer")


def _stage_of(pod: Pod) -> Stage:
    name = pod["metadata"]["name"]
    for status in _status(pod, "initContainerStatuses"):
        if status["name"] == CONTAINER_INITIALIZER and "running" in status.get("state", {}):
            return Stage("LoadingModel", f"pod {name}: the storage-initializer is copying the model")
    if any("running" in item.get("state", {}) for item in _status(pod, "containerStatuses")):
        return Stage("StartingServer", f"pod {name}: the server is starting and loading the model")
    if not pod.get("spec", {}).get("nodeName"):
        return Stage("Scheduling", f"pod {name}: waiting for a node")
    return Stage("PreparingPod", f"pod {name}: volumes and images are being made ready")


def _failures(pod: Pod) -> Iterator[Failure]:
    name = pod["metadata"]["name"]
    for status in (*_status(pod, "initContainerStatuses"), *_status(pod, "containerStatuses")):
        failure = _container_failure(name, status)
        if failure:
            yield failure
    for item in _status(pod, "conditions"):
        if item["type"] == "PodScheduled" and item.get("reason") == "Unschedulable":
            yield _unschedulable(name, item.get("message", ""))
    if pod.get("status", {}).get("phase") == "Failed":
        status = pod["status"]
        yield Failure(status.get("reason", "PodFailed"), name, status.get("message", "the pod has failed"))


def _container_failure(pod: str, status: Mapping[str, Any]) -> Failure | None:
    state, container = status.get("state", {}), status["name"]
    waiting = state.get("waiting", {})
    if waiting.get("reason") in _PULL_FAILURES:
        cure = "check the image's name, its registry and imagePullSecrets"
        return Failure("ImagePullFailed", pod, _said(waiting), cure, container)
    if waiting.get("reason") in _CONFIG_FAILURES:
        cure = "check env, envFrom, volumes and command of the container"
        return Failure("ContainerConfigInvalid", pod, _said(waiting), cure, container)
    ended = state.get("terminated")
    last = status.get("lastState", {}).get("terminated")
    if ended is not None and ended.get("exitCode", 0) != 0:
        return _crash(pod, status, ended, previous=False)
    if ended is None and last is not None and last.get("exitCode", 0) != 0:
        return _crash(pod, status, last, previous=True)
    return None


def _crash(pod: str, status: Mapping[str, Any], ended: Mapping[str, Any], *, previous: bool) -> Failure:
    container = status["name"]
    why = ended.get("reason", "Error")
    if why == "OOMKilled":
        cause, cure = "the container used more memory than its limit", "raise resources.limits.memory"
    else:
        cause, cure = (ended.get("message") or "it left no message").strip(), ""
    return Failure(
        reason="StorageInitializerFailed" if container == CONTAINER_INITIALIZER else "ServerFailed",
        pod=pod,
        cause=cause,
        cure=cure,
        container=container,
        exit_code=ended.get("exitCode"),
        has_log=True,
        previous=previous,
        attempt=str(ended.get("containerID", "")),
    )


def _unschedulable(pod: str, message: str) -> Failure:
    if claim := re.search(r'persistentvolumeclaim "([^"]+)" not found', message):
        name = claim[1]
        cure = f"create the PersistentVolumeClaim {name} in the service's namespace, or correct storageUri"
        return Failure("ClaimNotFound", pod, f"PersistentVolumeClaim {name} does not exist", cure)
    if "unbound" in message and "PersistentVolumeClaim" in message:
        cure = "see kubectl describe pvc; the claim needs a PersistentVolume or a StorageClass that makes one"
        return Failure("ClaimNotBound", pod, message, cure)
    cure = "lower resources.requests, correct nodeSelector and tolerations, or add a node"
    return Failure("Unschedulable", pod, message, cure)


def _said(waiting: Mapping[str, Any]) -> str:
    return ": ".join(part for part in (waiting.get("reason"), waiting.get("message")) if part)


def _status(pod: Pod, name: str) -> Sequence[Mapping[str, Any]]:
    return pod.get("status", {}).get(name) or ()


def _template(pod: Pod) -> str | None:
    return (pod["metadata"].get("labels") or {}).get(_TEMPLATE_HASH)
