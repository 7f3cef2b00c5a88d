"""The components of a service, from its Deployments, its pods and its conditions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isvc.view.fixes import fix_for
from isvc.view.pods import pods_seen, seen_failure, with_logs
from isvc.view.request_path import shares_of
from isvc.view.source import Related
from isvc.view.times import later
from isvc.view.values import ComponentView, Failure, HealthStatus
from isvc_operator.api.inference_service import Condition
from isvc_operator.api.kinds import AUTOSCALERS
from isvc_operator.api.names import EXPLAINER, LABEL_COMPONENT, PREDICTOR, TRANSFORMER
from isvc_operator.manifests import Manifest, condition_of, find, labels_of, name_of
from isvc_operator.observe.component import CONDITIONS, ROLLED_OUT, ComponentObservation, component_ready, rollout_of
from isvc_operator.observe.pods import newest_revision, pods_of, stage
from isvc_operator.resolve.requested import component_names

_KINDS = (PREDICTOR, TRANSFORMER, EXPLAINER)
_HEALTH = {"True": HealthStatus.READY, "False": HealthStatus.FAILED, "Unknown": HealthStatus.STARTING}


def components_seen(related: Related, *, idle: HealthStatus | None) -> list[ComponentView]:
    """Return the components of the spec, then others whose Deployments still exist.

    ``idle``: the health of all of them where the service is stopped or being deleted.
    """
    shares = shares_of(name_of(related.service), related.children)
    return [_component(related, kind, name, shares, idle=idle) for kind, name in _names(related)]


def _names(related: Related) -> Iterator[tuple[str, str]]:
    names = component_names(name_of(related.service), related.service.get("spec"))
    yield from names.items()
    for child in related.children:
        kind = labels_of(child).get(LABEL_COMPONENT, "")
        if child["kind"] == "Deployment" and kind in _KINDS and name_of(child) not in names.values():
            yield kind, name_of(child)


def _component(
    related: Related, kind: str, name: str, shares: Mapping[str, int], *, idle: HealthStatus | None
) -> ComponentView:
    deployment = find(related.children, "Deployment", name)
    observed = _observed(related, kind, name, deployment)
    stored = condition_of(related.service, CONDITIONS[kind])
    is_before = _is_current(related.service) and "status" in stored
    ready = component_ready(observed, Condition.model_validate(stored) if is_before else None)
    # What the spec lacks is only known to who resolves it. Of the pods, what is seen now is newer than what is stored.
    is_told = stored.get("status") == "False" and (ready.status != "False" or observed.failure is None)
    status, reason, message = (
        ("False", stored.get("reason"), stored.get("message"))
        if is_told
        else (ready.status, ready.reason, ready.message)
    )
    counts = deployment.get("status", {}) if deployment else {}
    health = idle or _HEALTH[status]
    return ComponentView(
        kind=kind,
        name=name,
        health=health,
        stage=(reason or "") if health in (HealthStatus.STARTING, HealthStatus.FAILED) else "",
        message=message or "",
        fails_at=_fails_at(deployment) if health is HealthStatus.STARTING else None,
        wanted=_wanted(deployment, observed),
        updated=counts.get("updatedReplicas", 0),
        available=counts.get("availableReplicas", 0),
        traffic=shares.get(name),
        url=related.service.get("status", {}).get("components", {}).get(kind, {}).get("url", ""),
        pods=pods_seen(pods_of(related.pods, kind, name), related, rolled_out_at=_rolled_out_at(deployment)),
        failure=_failure(observed, reason or "", message or "") if health is HealthStatus.FAILED else None,
    )


def _observed(related: Related, kind: str, name: str, deployment: Manifest | None) -> ComponentObservation:
    pods = newest_revision(pods_of(related.pods, kind, name))
    rollout = rollout_of(deployment, _minimum(related, name))
    return with_logs(ComponentObservation(kind, rollout, pods, None, stage(pods)), related)


def _failure(observed: ComponentObservation, reason: str, message: str) -> Failure:
    if observed.failure and observed.failure.reason == reason:
        return seen_failure(observed.failure, observed.log)
    return Failure(reason=reason, cause=message, fix=fix_for(reason))


def _rolled_out_at(deployment: Manifest | None) -> str | None:
    """Return when all pods of the newest template were available first: later ends of one do not change it."""
    progressing = condition_of(deployment or {}, "Progressing")
    is_done = (progressing.get("status"), progressing.get("reason")) == ("True", ROLLED_OUT)
    return progressing.get("lastUpdateTime") if is_done else None


def _fails_at(deployment: Manifest | None) -> str | None:
    """Return when the Deployment reports that there was no progress for too long."""
    progressing = condition_of(deployment or {}, "Progressing")
    if deployment is None or progressing.get("status") != "True" or progressing.get("reason") == ROLLED_OUT:
        return None
    return later(progressing.get("lastUpdateTime"), deployment.get("spec", {}).get("progressDeadlineSeconds"))


def _wanted(deployment: Manifest | None, observed: ComponentObservation) -> int:
    if deployment is None:
        return len(observed.pods)
    wanted: int = deployment.get("spec", {}).get("replicas", 1)
    return wanted


def _minimum(related: Related, name: str) -> int | None:
    """Return how few pods the component's autoscaler leaves it; None without one."""
    for kind in AUTOSCALERS:
        if scaler := find(related.children, kind, name):
            spec = scaler.get("spec", {})
            minimum: int = spec.get("minReplicas", spec.get("minReplicaCount", 1))
            return minimum
    return None


def _is_current(service: Manifest) -> bool:
    return bool(service.get("status", {}).get("observedGeneration") == service["metadata"]["generation"])
