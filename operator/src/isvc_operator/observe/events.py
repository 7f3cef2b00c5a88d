"""The Events that report changes of a service to its user, and ignored settings to the administrator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isvc_operator.api.inference_service import API_VERSION, KIND, Condition, InferenceService, InferenceServiceStatus
from isvc_operator.api.names import (
    CHANGE_HELD_BACK,
    FIELD_MANAGER,
    FIELDS_IGNORED,
    HOST_TAKEN,
    INGRESS_READY,
    PODS_OUTDATED,
    READY,
    ROLLOUT_QUEUED,
    SPEC_NOT_APPLIED,
)
from isvc_operator.limits import EVENT_BYTES
from isvc_operator.text import shortened

# The conditions of which each new message is an Event of their reason, with its type.
_REPORTED = {
    FIELDS_IGNORED: "Warning",
    SPEC_NOT_APPLIED: "Warning",
    CHANGE_HELD_BACK: "Warning",
    PODS_OUTDATED: "Normal",
}


# The namespace of the Events on objects that have none.
_OF_THE_CLUSTER = "default"


def events_for(service: InferenceService, status: InferenceServiceStatus, now: str) -> list[Mapping[str, Any]]:
    """Return the Events for changed conditions.

    There is one for each status and reason of ``Ready`` but the first stage of a new service, one for a host that
    belongs to another service, one for each list of fields that have no effect, one for each change that is held back,
    one for each pod template of a newer version of the operator that waits for more than its turn, and one for each
    list of children that do not stay as rendered.
    """
    events = []
    ready = _changed(READY, service.status, status)
    is_first_stage = ready and ready.status == "Unknown" and not service.status.conditions
    if ready and not is_first_stage:
        events.append(_readiness_event(service, ready, now))
    ingress = _changed(INGRESS_READY, service.status, status)
    if ingress and ingress.reason == HOST_TAKEN and not (ready and ready.reason == HOST_TAKEN):
        events.append(_of_service(service, "Warning", reason=HOST_TAKEN, message=ingress.message or "", now=now))
    for condition, type_ in _REPORTED.items():
        found = _of_type(condition, status)
        if found and found.reason != ROLLOUT_QUEUED and found.message != _message(_of_type(condition, service.status)):
            events.append(_of_service(service, type_, reason=found.reason or "", message=found.message or "", now=now))
    return events


def _readiness_event(service: InferenceService, ready: Condition, now: str) -> Mapping[str, Any]:
    became_ready = ready.status == "True"
    state = "Ready" if became_ready else "not Ready"
    reason = "InferenceServiceReady" if became_ready else (ready.reason or "InferenceServiceNotReady")
    message = (None if became_ready else ready.message) or f"InferenceService [{service.metadata.name}] is {state}"
    type_ = "Warning" if ready.status == "False" else "Normal"
    return _of_service(service, type_, reason=reason, message=message, now=now)


def ignored_event(involved: Mapping[str, Any], ignored: Sequence[str], *, reason: str, now: str) -> Mapping[str, Any]:
    """Return the Event for what has no effect in an object of the administrator."""
    return _event(involved, "Warning", reason=reason, message=f"Ignored: {'; '.join(ignored)}", now=now)


def _of_service(service: InferenceService, type_: str, *, reason: str, message: str, now: str) -> Mapping[str, Any]:
    metadata = service.metadata
    involved = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": metadata.name,
        "namespace": metadata.namespace,
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
    }
    return _event(involved, type_, reason=reason, message=message, now=now)


def _event(involved: Mapping[str, Any], type_: str, *, reason: str, message: str, now: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{involved['name']}.", "namespace": involved.get("namespace") or _OF_THE_CLUSTER},
        "involvedObject": involved,
        "type": type_,
        "reason": reason,
        "message": shortened(message, EVENT_BYTES),
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _changed(type_: str, before: InferenceServiceStatus, after: InferenceServiceStatus) -> Condition | None:
    """Return the new condition if its status or its reason has changed."""
    old, new = (_of_type(type_, status) for status in (before, after))
    same = old and new and (old.status, old.reason) == (new.status, new.reason)
    return None if same else new


def _of_type(type_: str, status: InferenceServiceStatus) -> Condition | None:
    return next((item for item in status.conditions if item.type == type_), None)


def _message(condition: Condition | None) -> str | None:
    return condition.message if condition else None
