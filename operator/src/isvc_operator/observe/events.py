"""The Event that tells a user what has just changed about a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isvc_operator.api.inference_service import (
    API_VERSION,
    KIND,
    Condition,
    InferenceService,
    InferenceServiceStatus,
)
from isvc_operator.api.names import FIELD_MANAGER, READY
from isvc_operator.limits import EVENT_BYTES
from isvc_operator.text import shortened


def event_for(service: InferenceService, status: InferenceServiceStatus, now: str) -> Mapping[str, Any] | None:
    """The Event for a change of ``Ready``; None where neither its status nor its reason has changed."""
    before, after = _ready(service.status), _ready(status)
    if after is None or (before and (before.status, before.reason) == (after.status, after.reason)):
        return None
    metadata = service.metadata
    became_ready = after.status == "True"
    state = "Ready" if became_ready else "not Ready"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata.name}.", "namespace": metadata.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        },
        "type": "Warning" if after.status == "False" else "Normal",
        "reason": "InferenceServiceReady" if became_ready else (after.reason or "InferenceServiceNotReady"),
        "message": shortened(after.message or f"InferenceService [{metadata.name}] is {state}", EVENT_BYTES),
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _ready(status: InferenceServiceStatus) -> Condition | None:
    return next((item for item in status.conditions if item.type == READY), None)
