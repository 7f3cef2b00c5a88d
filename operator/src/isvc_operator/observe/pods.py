"""The pods of the newest revision: the stage of their start, or the failure that stops them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from isvc_operator.api.names import (
    ANNOTATION_STORAGE_RESOURCES,
    CONTAINER_INITIALIZER,
    CONTAINER_MODELCAR,
    LABEL_APP,
    LABEL_COMPONENT,
    LABEL_SERVICE,
    PREDICTOR,
    app_label,
)
from isvc_operator.manifests import Manifest, Pod, labels_of, name_of

# The reasons of the component's condition. The first is for the Deployment controller, which creates a pod
# and reports it at the end; the others are in the order of a pod's start.
WAITING = "WaitingForDeployment"
SCHEDULING = "Scheduling"
PREPARING = "PreparingPod"
LOADING = "LoadingModel"
STARTING = "StartingServer"
_STAGES = (SCHEDULING, PREPARING, LOADING, STARTING)
# The reasons of a component that was ready and is not any more. It may become ready again without a change.
READINESS_LOST = "ReadinessLost"
NODE_NOT_READY = "NodeNotReady"
MINIMUM_UNAVAILABLE = "MinimumReplicasUnavailable"  # a Deployment's own reason: its pods are being replaced
OUTAGES = (READINESS_LOST, NODE_NOT_READY, MINIMUM_UNAVAILABLE)

_REASON = re.compile(r"[A-Za-z][A-Za-z0-9]{0,127}")
_TEMPLATE_HASH = "pod-template-hash"
_PULL_FAILURES = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_OUT_OF_MEMORY = "OOMKilled"
_SIGNALS = {137: "SIGKILL", 143: "SIGTERM"}  # by the exit code of a container that they end


class _OfClaim(NamedTuple):
    """A failure of a pod's claims, and whether it heals; schedulers tell it by their version in other ``words``."""

    words: str
    reason: str
    heals: bool
    fix: str


_OF_CLAIMS = (
    _OfClaim(
        r"unbound.*VolumeClaim|available persistent volumes to bind|bound to non-existent", "ClaimNotBound", True,
        "see kubectl describe pvc; the claim needs a PersistentVolume or a StorageClass that provisions one",
    ),
    _OfClaim(
        "ReadWriteOncePod", "ClaimInUse", True,
        "stop the other pod, or use a claim whose access mode lets several pods read it",
    ),
    _OfClaim(
        r"olume('s)? node affinity|no available volume zone", "ClaimElsewhere", False,
        "run the pod where the claim's volume is (nodeSelector, affinity), or use a volume without node affinity",
    ),
)  # fmt: skip
_CONFIG_FAILURES = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


@dataclass(frozen=True)
class PodFailure:
    """Why a pod does not become ready. ``container`` and ``exit_code`` are None if no container has started.

    ``cause`` is the message of Kubernetes or of the container; ``fix`` is what to do about it. ``previous``: the log
    to read is that of the instance before the last restart. ``attempt`` identifies the instance of the container.
    ``lifetime`` has its start and its end where a probe may have ended it, which only Events say (``observe.probes``).
    ``heals``: the pod, or the one that replaces it, may become ready without a change from outside.
    """

    reason: str
    pod: str
    cause: str
    fix: str = ""
    container: str | None = None
    exit_code: int | None = None
    has_log: bool = False
    previous: bool = False
    attempt: str = ""
    lifetime: tuple[str, str] | None = None
    heals: bool = False

    @property
    def location(self) -> str:
        """The pod and the container, for messages."""
        return f"pod {self.pod}" + (f", container {self.container}" if self.container else "")

    @property
    def is_of_probe(self) -> bool:
        """Whether the pod's Events may say more: which probe failed, and what it got."""
        return self.lifetime is not None or self.reason == READINESS_LOST

    @property
    def keeps_model(self) -> bool:
        """Whether the model has been loaded: the pod was ready before."""
        return self.reason in OUTAGES


@dataclass(frozen=True)
class Stage:
    """The stage of a pod's start."""

    reason: str
    message: str


def pods_of(labelled: Iterable[Manifest], kind: str, name: str | None) -> Iterator[Pod]:
    """Yield the pods of a kind of component; of the one called ``name``, as the predictor's name may have changed."""
    for item in labelled:
        labels = labels_of(item)
        is_current = name is None or labels.get(LABEL_APP) == app_label(name)
        if item["kind"] == "Pod" and labels.get(LABEL_COMPONENT) == kind and is_current:
            yield item


def newest_revision(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods with the template of the newest pod, newest first.

    Pods that are being deleted are left out, and so are finished ones (evicted, for example) that were replaced.
    """
    living = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    newest_first = sorted(
        living,
        key=lambda pod: (pod["metadata"]["creationTimestamp"], name_of(pod)),
        reverse=True,
    )
    revision = [pod for pod in newest_first if _template(pod) == _template(newest_first[0])]
    return [pod for pod in revision if _phase(pod) not in ("Failed", "Succeeded")] or revision


def is_ready(pod: Pod) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in _status(pod, "conditions"))


def first_failure(pods: Sequence[Pod]) -> PodFailure | None:
    """Return the failure of the first pod that has one; a ready pod has none."""
    for pod in pods:
        if is_ready(pod):
            continue
        for failure in _failures(pod):
            return failure
    return None


def stage(pods: Sequence[Pod]) -> Stage:
    """Return the stage of the pod that is closest to being ready.

    Without such a pod it is the Deployment controller's turn: to create one, or to report those that are ready.
    """
    pod = furthest(pods)
    return stage_of(pod) if pod else Stage(WAITING, "Waiting for the Deployment controller")


def furthest(pods: Sequence[Pod]) -> Pod | None:
    """Return the pod that is closest to being ready, of those that are not."""
    starting = (pod for pod in pods if not is_ready(pod))
    return max(starting, key=lambda pod: _STAGES.index(stage_of(pod).reason), default=None)


def stage_of(pod: Pod) -> Stage:
    name = name_of(pod)
    if any("running" in item.get("state", {}) for item in _status(pod, "containerStatuses")):
        return Stage(STARTING, f"pod {name}: {_starting(pod)}")
    for status in _status(pod, "initContainerStatuses"):
        state = status.get("state", {}) if status["name"] == CONTAINER_INITIALIZER else {}
        if "running" in state:
            return Stage(LOADING, f"pod {name}: the storage-initializer is copying the model")
        if state.get("terminated", {}).get("exitCode") == 0:
            return Stage(STARTING, f"pod {name}: the server's image is pulled, and its container created")
    if not pod.get("spec", {}).get("nodeName"):
        return Stage(SCHEDULING, f"pod {name}: waiting for a node")
    return Stage(PREPARING, f"pod {name}: volumes and images are being prepared")


def storage_warning(pods: Sequence[Pod]) -> str | None:
    """Return the message of a storage-initializer that has succeeded: it names what the server does without."""
    for pod in pods:
        for status in _status(pod, "initContainerStatuses"):
            ended = status.get("state", {}).get("terminated")
            if status["name"] == CONTAINER_INITIALIZER and ended and ended.get("exitCode") == 0:
                return ended.get("message") or None
    return None


def waiting_container(pod: Pod) -> str | None:
    """Return the container that runs and is not ready."""
    statuses = _status(pod, "containerStatuses")
    return next((item["name"] for item in statuses if "running" in item.get("state", {}) and not item["ready"]), None)


def _starting(pod: Pod) -> str:
    kind = labels_of(pod).get(LABEL_COMPONENT)
    return "the server is starting and loading the model" if kind == PREDICTOR else f"the {kind} is not ready yet"


def _failures(pod: Pod) -> Iterator[PodFailure]:
    name = name_of(pod)
    if _phase(pod) == "Failed":
        status = pod["status"]
        reason = status.get("reason") or ""
        known = reason if _REASON.fullmatch(reason) else "PodFailed"
        yield PodFailure(known, name, status.get("message", "the pod has failed"), heals=True)
    for status in _status(pod, "initContainerStatuses"):
        yield from _container_failures(pod, status, may_end=True)
    for status in _status(pod, "containerStatuses"):
        yield from _container_failures(pod, status, may_end=False)
    for item in _status(pod, "conditions"):
        if item["type"] == "PodScheduled" and item.get("reason") == "Unschedulable":
            yield _unschedulable(name, item.get("message", ""))
    if outage := _outage(pod):
        yield outage


def _outage(pod: Pod) -> PodFailure | None:
    """Return why a pod is not ready any more, from what Kubernetes keeps: its condition changed after its start."""
    found = next((item for item in _status(pod, "conditions") if item["type"] == "Ready"), None)
    since = found.get("lastTransitionTime") if found and found["status"] == "False" else None
    statuses = _status(pod, "containerStatuses")
    started = [
        item["state"]["running"].get("startedAt") or "" for item in statuses if "running" in item.get("state", {})
    ]
    # Of a pod that was never ready, the time is that of its creation. Times of one format compare as texts.
    if not since or len(started) < len(statuses) or since <= max(started, default=since):
        return None
    if unready := waiting_container(pod):
        return PodFailure(
            READINESS_LOST,
            name_of(pod),
            f"it was ready until {since}, and its readiness probe has failed since",
            "see in its last log lines why it does not respond; delete the pod to have it replaced",
            unready,
            has_log=True,
            attempt=since,
            heals=True,
        )
    if pod.get("spec", {}).get("readinessGates"):
        return None
    node = pod.get("spec", {}).get("nodeName")
    return PodFailure(
        NODE_NOT_READY,
        name_of(pod),
        f"the pod counts as not ready since {since}, because its node {node} does not report to the API server",
        f"see kubectl describe node {node}; if it does not come back, Kubernetes replaces its pods after five minutes",
        heals=True,
    )


def _container_failures(pod: Pod, status: Mapping[str, Any], *, may_end: bool) -> Iterator[PodFailure]:
    """``may_end``: an init container succeeds by exiting with 0, a server must not exit."""
    name, state, container = name_of(pod), status.get("state", {}), status["name"]
    waiting = state.get("waiting", {})
    if waiting.get("reason") in _PULL_FAILURES:
        fix = "check the image's name, its registry and imagePullSecrets"
        yield PodFailure("ImagePullFailed", name, _message(waiting), fix, container)
    if waiting.get("reason") in _CONFIG_FAILURES:
        yield PodFailure("ContainerConfigInvalid", name, _message(waiting), _config_fix(waiting), container)
    ended = state.get("terminated")
    last = ended or status.get("lastState", {}).get("terminated")
    if last and (last.get("exitCode", 0) != 0 or not may_end):
        yield _crash(pod, container, last, previous=ended is None)


def _config_fix(waiting: Mapping[str, Any]) -> str:
    if "runAsNonRoot" in waiting.get("message", ""):
        return (
            "write a number other than 0 after USER in the image's Dockerfile, or set "
            "securityContext.runAsNonRoot: false on the container"
        )
    return "check env, envFrom, volumes and command of the container"


def _crash(pod: Pod, container: str, ended: Mapping[str, Any], *, previous: bool) -> PodFailure:
    brings_model = container == CONTAINER_INITIALIZER or container.startswith(CONTAINER_MODELCAR)
    cause, fix = _cause_of_end(pod, container, ended)
    if not (fix or ended.get("message") or brings_model):
        fix = f"see its log: isvc logs {labels_of(pod).get(LABEL_SERVICE, 'NAME')}"
    return PodFailure(
        reason="StorageInitializerFailed" if brings_model else "ServerFailed",
        pod=name_of(pod),
        cause=cause,
        fix=fix,
        container=container,
        exit_code=ended.get("exitCode"),
        has_log=True,
        previous=previous,
        attempt=str(ended.get("containerID", "")),
        lifetime=None if brings_model else _lifetime(ended),
    )


def _cause_of_end(pod: Pod, container: str, ended: Mapping[str, Any]) -> tuple[str, str]:
    """Return why a container has ended, and what to do if its message does not say it."""
    message, code = (ended.get("message") or "").strip(), ended.get("exitCode", 0)
    initializer = container == CONTAINER_INITIALIZER
    if ended.get("reason") == _OUT_OF_MEMORY:
        fix = "raise resources.limits.memory"
        if initializer:
            fix = (
                f"raise limits.memory in the service's annotation {ANNOTATION_STORAGE_RESOURCES}, "
                "or memoryLimit of storageInitializer in the ConfigMap inferenceservice-config"
            )
        return "the container used more memory than its limit", fix
    if code in _SIGNALS and not initializer:
        fix = f"see whether its liveness or startup probe failed: kubectl describe pod {name_of(pod)}"
        return f"{_SIGNALS[code]} ended it" + (f": {message}" if message else ""), fix
    return message or ("it left no message" if code else "the server has exited, but should keep running"), ""


def _lifetime(ended: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the start and the end of a server that a signal may have ended: one that handles it may exit with 0."""
    times = ended.get("startedAt"), ended.get("finishedAt")
    if ended.get("reason") == _OUT_OF_MEMORY or ended.get("exitCode", 0) not in (0, *_SIGNALS) or not all(times):
        return None
    return str(times[0]), str(times[1])


def _unschedulable(pod: str, message: str) -> PodFailure:
    if claim := re.search(r'persistentvolumeclaim "([^"]+)" not found', message):
        name = claim[1]
        fix = f"create the PersistentVolumeClaim {name} in the service's namespace, or correct storageUri"
        return PodFailure("ClaimNotFound", pod, f"PersistentVolumeClaim {name} does not exist", fix)
    for one in _OF_CLAIMS:
        if re.search(one.words, message):
            return PodFailure(one.reason, pod, message, one.fix, heals=one.heals)
    fix = (
        "lower resources.requests (a model without any has its runtime's: set them), correct nodeSelector and "
        "tolerations, or add a node"
    )
    if "were unschedulable" in message:
        fix = f"kubectl uncordon a node that is cordoned; or {fix}"
    return PodFailure("Unschedulable", pod, message, fix, heals=True)


def _message(waiting: Mapping[str, Any]) -> str:
    return ": ".join(part for part in (waiting.get("reason"), waiting.get("message")) if part)


def _status(pod: Pod, name: str) -> Sequence[Mapping[str, Any]]:
    return pod.get("status", {}).get(name) or ()


def _phase(pod: Pod) -> str | None:
    phase: str | None = pod.get("status", {}).get("phase")
    return phase


def _template(pod: Pod) -> str | None:
    return labels_of(pod).get(_TEMPLATE_HASH)
