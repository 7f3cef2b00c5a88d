"""The Events that report changes of a service to its user, and ignored settings to the administrator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isvc_operator.api.inference_service import API_VERSION, KIND, Condition, InferenceService, InferenceServiceStatus
from isvc_operator.api.names import (
    AUTOSCALER_PROBLEM,
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
from isvc_operator.manifests import controller_of
from isvc_operator.text import shortened

# The conditions of which each new message is an Event of their reason, with its type.
_REPORTED = {
    FIELDS_IGNORED: "Warning",
    SPEC_NOT_APPLIED: "Warning",
    CHANGE_HELD_BACK: "Warning",
    AUTOSCALER_PROBLEM: "Warning",
    PODS_OUTDATED: "Normal",
}


# The namespace of the Events on objects that have none.
_OF_THE_CLUSTER = "default"


def events_for(service: InferenceService, status: InferenceServiceStatus, now: str) -> list[Mapping[str, Any]]:
    """Return the Events for changed conditions.

    There is one for each status and reason of ``Ready`` but the first stage of a new service, one for a host that
    belongs to another service, one for each list of fields that have no effect, one for each change that is held back,
    one for each pod template of a newer version of the operator that waits for more than its turn, one for an
    autoscaler that does not work, and one for each list of children that do not stay as rendered.
    """
    old, new = ({item.type: item for item in given.conditions} for given in (service.status, status))

    def changed(type_: str) -> Condition | None:
        """Return the new condition if its status or its reason has changed."""
        before, after = old.get(type_), new.get(type_)
        same = before and after and (before.status, before.reason) == (after.status, after.reason)
        return None if same else after

    events = []
    ready, ingress = changed(READY), changed(INGRESS_READY)
    is_first_stage = ready and ready.status == "Unknown" and not old
    if ready and not is_first_stage:
        events.append(_readiness_event(service, ready, now))
    if ingress and ingress.reason == HOST_TAKEN and not (ready and ready.reason == HOST_TAKEN):
        events.append(_of_service(service, "Warning", reason=HOST_TAKEN, message=ingress.message or "", now=now))
    for condition, type_ in _REPORTED.items():
        found, before = new.get(condition), old.get(condition)
        if found and found.reason != ROLLOUT_QUEUED and found.message != (before and before.message):
            events.append(_of_service(service, type_, reason=found.reason or "", message=found.message or "", now=now))
    return events


def _readiness_event(service: InferenceService, ready: Condition, now: str) -> Mapping[str, Any]:
    became_ready = ready.status == "True"
    state = "Ready" if became_ready else "not Ready"
    reason = "InferenceServiceReady" if became_ready else (ready.reason or "InferenceServiceNotReady")
    message = (None if became_ready else ready.message) or f"InferenceService [{service.metadata.name}] is {state}"
    type_ = "Warning" if ready.status == "False" else "Normal"
    return _of_service(service, type_, reason=reason, message=message, now=now)


def change_event(child: Mapping[str, Any], *, reason: str, message: str, now: str) -> Mapping[str, Any]:
    """Return the Event for a change of a child, on the service that owns it."""
    owner = {name: controller_of(child)[name] for name in ("apiVersion", "kind", "name", "uid")}
    involved = {**owner, "namespace": child["metadata"]["namespace"]}
    return event_on(involved, "Normal", reason=reason, message=message, now=now)


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
    return event_on(involved, type_, reason=reason, message=message, now=now)


def event_on(involved: Mapping[str, Any], type_: str, *, reason: str, message: str, now: str) -> Mapping[str, Any]:
    """Return an Event on an object of any kind."""
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
