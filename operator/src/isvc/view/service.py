"""What is seen of a service, from its objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isvc.view.components import components_seen
from isvc.view.fixes import fix_for
from isvc.view.history import history_of
from isvc.view.request_path import request_path_of
from isvc.view.runtime import runtime_of
from isvc.view.shapes import well_formed
from isvc.view.source import Related
from isvc.view.values import ComponentView, ConditionView, Failure, HealthStatus, ServiceView
from isvc_operator.api.names import READY, STOPPED
from isvc_operator.manifests import Manifest, condition_of

_BY_READY = {"True": HealthStatus.READY, "False": HealthStatus.FAILED}


def view_of(related: Related) -> ServiceView:
    """Return what is seen of the service.

    No object makes it raise: what has not the type that it has in Kubernetes counts as absent.
    """
    related = well_formed(related)
    metadata, status = related.service["metadata"], related.service.get("status", {})
    idle = _idle(related.service)
    components = components_seen(related, idle=idle)
    ready = condition_of(related.service, READY)
    failure = None if idle else _failure(ready, components)
    stored = _BY_READY.get(ready.get("status", ""), HealthStatus.STARTING)
    return ServiceView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        health=idle or (HealthStatus.FAILED if failure else stored),
        created_at=metadata["creationTimestamp"],
        generation=metadata["generation"],
        observed_generation=status.get("observedGeneration", 0),
        stage=ready.get("reason", ""),
        message=ready.get("message", ""),
        url=status.get("url", ""),
        runtime=runtime_of(related),
        components=components,
        request_path=[] if idle else request_path_of(related.service, related.children, components),
        conditions=[_seen(item) for item in status.get("conditions", ())],
        history=history_of(related),
        failure=failure,
    )


def _idle(service: Manifest) -> HealthStatus | None:
    if service["metadata"].get("deletionTimestamp"):
        return HealthStatus.TERMINATING
    return HealthStatus.STOPPED if condition_of(service, STOPPED).get("status") == "True" else None


def _failure(ready: Mapping[str, Any], components: Sequence[ComponentView]) -> Failure | None:
    """Return the failure that ``Ready`` names, or else that of the first component, which the status has not yet."""
    failures = [item.failure for item in components if item.failure]
    named = next((item for item in failures if item.reason == ready.get("reason")), None)
    if named or ready.get("status") != "False":
        return named or next(iter(failures), None)
    reason = ready.get("reason", "")
    return Failure(reason=reason, cause=ready.get("message", ""), fix=fix_for(reason))


def _seen(item: Mapping[str, Any]) -> ConditionView:
    return ConditionView(
        type=item["type"],
        status=item["status"],
        severity=item.get("severity", ""),
        reason=item.get("reason", ""),
        message=item.get("message", ""),
        changed_at=item.get("lastTransitionTime"),
    )
