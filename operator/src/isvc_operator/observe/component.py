"""The observation of one component: its rollout, its pods, and its condition."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from isvc_operator.api.inference_service import Condition
from isvc_operator.api.kinds import AUTOSCALERS, SCALED_OBJECT
from isvc_operator.api.names import (
    EXPLAINER,
    EXPLAINER_READY,
    PREDICTOR,
    PREDICTOR_READY,
    TRANSFORMER,
    TRANSFORMER_READY,
)
from isvc_operator.limits import LOG_BYTES, PROGRESS_BYTES
from isvc_operator.manifests import Manifest, Pod, condition_of, find
from isvc_operator.observe.conditions import condition
from isvc_operator.observe.pods import (
    MINIMUM_UNAVAILABLE,
    PodFailure,
    Stage,
    first_failure,
    newest_revision,
    pods_of,
    stage,
)
from isvc_operator.resolve.component import Component
from isvc_operator.text import one_line, quoted

ROLLED_OUT: Final = "NewReplicaSetAvailable"  # a Deployment's own reason
SCALED_TO_ZERO: Final = "scaled to zero: no pod serves requests until it is scaled up"


@dataclass(frozen=True)
class Rollout:
    """``refusal`` is why the Deployment cannot create pods at all (a quota, a policy).

    ``stuck``: there was no progress within the Deployment's deadline. ``paused`` is what to do about its newest
    template, which is not rolled out because somebody has paused it. ``finished``: its newest template was rolled out
    once, even if pods have failed since. ``sufficient``: as many pods are available as are needed, or no fewer than its
    strategy allows, old ones included.
    """

    complete: bool
    serving: int
    message: str
    refusal: str | None = None
    stuck: bool = False
    paused: str | None = None
    finished: bool = False
    sufficient: bool = False


def rollout_of(deployment: Manifest | None, enough: int | None = None) -> Rollout:
    """Return how far the newest template is rolled out, by the rules of ``kubectl rollout status``.

    With ``enough`` pods, the minimum of its autoscaler, it does not wait for those that are being added for the load.
    One that is scaled to zero has nothing to wait for: not for its pods to end, nor for the controller to report it.
    """
    if deployment is None:
        return Rollout(complete=False, serving=0, message="the Deployment does not exist yet")
    spec, status = deployment.get("spec", {}), deployment.get("status", {})
    wanted = spec.get("replicas", 1)
    updated, total = status.get("updatedReplicas", 0), status.get("replicas", 0)
    available = status.get("availableReplicas", 0)
    observed = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    needed = wanted if enough is None else max(1, enough)  # which the autoscaler may not have asked for yet
    settled = observed and updated >= needed and total <= updated
    progress = condition_of(deployment, "Progressing").get("reason")
    finished = progress == ROLLED_OUT
    # With no more pods unavailable than its strategy allows it is still serving.
    tolerated = condition_of(deployment, "Available").get("status") == "True"
    serving = available > 0 and (available >= needed or (finished and tolerated))
    return Rollout(
        complete=wanted == 0 or (settled and serving),
        serving=available,
        message=f"{updated} of {wanted} pods updated, {available} available" if wanted else SCALED_TO_ZERO,
        refusal=_refusal(deployment),
        stuck=observed and progress == "ProgressDeadlineExceeded",
        paused=_resume(deployment["metadata"]) if spec.get("paused") and observed and not settled else None,
        finished=finished,
        sufficient=available > 0 and (available >= needed or tolerated),
    )


def _resume(metadata: Mapping[str, Any]) -> str:
    name, namespace = metadata["name"], metadata.get("namespace", "default")
    return (
        f"Deployment {name} is paused (spec.paused), so that its pods keep their template; "
        f"kubectl rollout resume deployment {name} --namespace={namespace}"
    )


def _refusal(deployment: Manifest) -> str | None:
    failure = condition_of(deployment, "ReplicaFailure")
    return one_line(str(failure.get("message") or failure.get("reason"))) if failure.get("status") == "True" else None


_NO_ACCOUNT: Final = re.compile(r'serviceaccount "[^"]*" not found')
LAST_LOG_LINES: Final = "\nLast log lines:\n"  # what separates them from the rest of a message
CONDITIONS: Final = {PREDICTOR: PREDICTOR_READY, TRANSFORMER: TRANSFORMER_READY, EXPLAINER: EXPLAINER_READY}


@dataclass(frozen=True)
class ComponentObservation:
    """A component's Deployment and pods.

    ``log`` has the last lines of the container that has failed, or has not been ready for long; ``progress`` is that of
    the model's download. ``autoscaler`` is the HorizontalPodAutoscaler or the ScaledObject.
    """

    kind: str
    rollout: Rollout
    pods: Sequence[Pod]
    failure: PodFailure | None
    stage: Stage
    log: str = ""
    progress: str = ""
    autoscaler: Manifest | None = None


def observe_component(
    kind: str, resolved: Component | None, labelled: Collection[Manifest], *, stopped: bool
) -> ComponentObservation:
    """Return what the service's objects say of a component, without logs and progress.

    A component of a service that is not resolved has no name, and its Deployment is not looked up.
    """
    name = resolved.name if resolved else None
    autoscaler = resolved.scaling.autoscaler if resolved else None
    minimum = autoscaler.minimum if autoscaler else None
    # KEDA does not go up to the minimum of one that is paused.
    if name and condition_of(find(labelled, SCALED_OBJECT, name) or {}, "Paused").get("status") == "True":
        minimum = None
    pods = newest_revision(pods_of(labelled, kind, name))
    return ComponentObservation(
        kind=kind,
        rollout=rollout_of(find(labelled, "Deployment", name) if name else None, minimum),
        pods=pods,
        failure=None if stopped else first_failure(pods),
        stage=stage(pods),
        autoscaler=next((item for kind in AUTOSCALERS if name and (item := find(labelled, kind, name))), None),
    )


def component_ready(observed: ComponentObservation, before: Condition | None) -> Condition:
    """Return the component's condition, for a service that is resolved and not stopped.

    ``before`` is the condition for the same generation of the service. The owner has asked for nothing new then: a
    component that was ready stays so while its pods are replaced, as long as enough of them are available.
    """
    type_, rollout = CONDITIONS[observed.kind], observed.rollout
    if rollout.complete:
        return condition(type_, True, ROLLED_OUT, None if rollout.serving else rollout.message)
    was_ready = before is not None and _was_ready(before)
    if rollout.paused:
        serves = was_ready and rollout.sufficient
        return condition(type_, serves, "DeploymentPaused", rollout.paused + _still_serving(rollout))
    if observed.failure:
        message = explain(observed.failure, observed.log)
        return condition(type_, False, observed.failure.reason, message + _still_serving(rollout))
    if rollout.refusal:
        reason = "ServiceAccountNotFound" if _NO_ACCOUNT.search(rollout.refusal) else "PodsRefused"
        return condition(type_, False, reason, rollout.refusal)
    progress = f": {one_line(observed.progress, PROGRESS_BYTES)}" if observed.progress else ""
    message = f"{observed.stage.message}{progress} ({rollout.message})"
    if rollout.stuck:
        message += ", and nothing has changed within the Deployment's progressDeadlineSeconds"
        return condition(type_, False, "ProgressDeadlineExceeded", _with_log(message, observed.log))
    if was_ready and rollout.finished and not rollout.sufficient:
        message = f"fewer pods serve requests than before: {message}"
        return condition(type_, False, MINIMUM_UNAVAILABLE, _with_log(message, observed.log))
    status = True if was_ready and rollout.sufficient else None
    return condition(type_, status, observed.stage.reason, _with_log(message, observed.log))


def _was_ready(before: Condition) -> bool:
    """Whether pods served requests; those that are scaled to zero are ready as well."""
    if before.status == "True":
        return before.message != SCALED_TO_ZERO
    return before.reason == MINIMUM_UNAVAILABLE


def explain(failure: PodFailure, log: str) -> str:
    """Return the whole message: place, exit code, cause, fix, last log lines."""
    code = f" ended with exit code {failure.exit_code}" if failure.exit_code is not None else ""
    text = f"{failure.location}{code}: {quoted(failure.cause, LOG_BYTES)}"
    if failure.fix:
        separator = "\n" if "\n" in text else "; "
        text = f"{text.rstrip('.')}{separator}{failure.fix}"
    return _with_log(text, log)


def _with_log(text: str, log: str) -> str:
    return f"{text}{LAST_LOG_LINES}| {quoted(log, LOG_BYTES)}" if log else text


def _still_serving(rollout: Rollout) -> str:
    pods = "1 pod" if rollout.serving == 1 else f"{rollout.serving} pods"
    return f"\nRequests are still served ({pods} available)." if rollout.serving else ""
