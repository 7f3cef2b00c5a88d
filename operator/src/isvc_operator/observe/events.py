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

_MESSAGE_LIMIT = 1024  # bytes: what events.k8s.io allows in a note (core/v1 itself sets no limit)
_CUT = "…"


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
        "message": _shortened(after.message or f"InferenceService [{metadata.name}] is {state}"),
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _ready(status: InferenceServiceStatus) -> Condition | None:
    return next((item for item in status.conditions if item.type == READY), None)


def _shortened(message: str) -> str:
    text = message.encode()
    if len(text) <= _MESSAGE_LIMIT:
        return message
    return text[: _MESSAGE_LIMIT - len(_CUT.encode())].decode(errors="ignore") + _CUT
