"""Reduces Kubernetes objects to the fields that are seen, each of its type: what comes from outside may be anything.

A shape is a type (``str``: a field that may be absent), a value (``""``: what an absent field becomes), a list with the
shape of its items, a mapping with the shapes of its fields, or ``{str: shape}`` for a mapping with any names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from isvc.limits import SEEN_ITEMS
from isvc.view.source import Related
from isvc_operator.limits import MESSAGE_BYTES
from isvc_operator.manifests import Manifest
from isvc_operator.text import shortened

_ANYTHING: Final = object
_METADATA: Final = {
    "name": "",
    "namespace": "",
    "uid": "",
    "resourceVersion": "",
    "creationTimestamp": "",
    "deletionTimestamp": str,
    "generation": 0,
    "labels": {str: str},
    "annotations": {str: str},
    "managedFields": [{"manager": "", "operation": "", "subresource": str, "time": ""}],
}
_CONDITIONS: Final = [
    {
        "type": "",
        "status": "",
        "severity": str,
        "reason": str,
        "message": str,
        "lastTransitionTime": str,
        "lastUpdateTime": str,
    }
]
_STATE: Final = {
    "waiting": {"reason": str, "message": str},
    "running": {"startedAt": str},
    "terminated": {
        "exitCode": int, "reason": str, "message": str, "startedAt": str, "finishedAt": str, "containerID": str,
    },
}  # fmt: skip
_CONTAINERS: Final = [
    {"name": "", "image": "", "ready": False, "restartCount": 0, "state": _STATE, "lastState": _STATE}
]
_POD: Final = {
    "metadata": _METADATA,
    "spec": {"nodeName": str, "volumes": [{"persistentVolumeClaim": {"claimName": ""}}]},
    "status": {
        "phase": str,
        "reason": str,
        "message": str,
        "conditions": _CONDITIONS,
        "initContainerStatuses": _CONTAINERS,
        "containerStatuses": _CONTAINERS,
    },
}
_SERVICE: Final = {
    "metadata": _METADATA,
    "spec": _ANYTHING,
    "status": {
        "observedGeneration": 0,
        "conditions": _CONDITIONS,
        "url": str,
        "address": {"url": str},
        "components": {str: {"url": str}},
        "servingRuntimeName": str,
        "clusterServingRuntimeName": str,
    },
}
_BACKENDS: Final = [{"name": "", "weight": int}]
_CHILD: Final = {
    "kind": "",
    "metadata": _METADATA,
    "spec": {
        "replicas": int,
        "progressDeadlineSeconds": int,
        "minReplicas": int,
        "minReplicaCount": int,
        "hostnames": [str],
        "rules": [
            {
                "host": str,
                "http": {"paths": [{"path": "", "backend": {"service": {"name": ""}}}]},
                "matches": [{"path": {"value": ""}}],
                "backendRefs": _BACKENDS,
            }
        ],
    },
    "status": {
        "observedGeneration": int,
        "updatedReplicas": int,
        "replicas": int,
        "availableReplicas": int,
        "conditions": _CONDITIONS,
    },
}
_EVENT: Final = {
    "metadata": _METADATA,
    "involvedObject": {"kind": "", "name": "", "uid": "", "fieldPath": str},
    "type": str,
    "reason": "",
    "message": "",
    "count": int,
    "series": {"count": int, "lastObservedTime": str},
    "firstTimestamp": str,
    "lastTimestamp": str,
    "eventTime": str,
}


def well_formed(related: Related) -> Related:
    """Return the objects with what is read of them; runtimes are parsed later, and stay as they are."""
    return replace(
        related,
        service=_object(related.service, _SERVICE),
        children=[_object(item, _CHILD) for item in related.children],
        pods=[{"kind": "Pod", **_object(item, _POD)} for item in related.pods],
        events=[_object(item, _EVENT) for item in related.events],
        runtimes=[item for item in related.runtimes if isinstance(item, Mapping)],
    )


def _object(value: Any, shape: Mapping[str, Any]) -> Manifest:
    fields = value if isinstance(value, Mapping) else {}
    needed: dict[str, Any] = {
        name: {} for name in ("metadata", "involvedObject") if not isinstance(fields.get(name), Mapping)
    }
    found: Manifest = shaped({**fields, **needed}, shape)
    return found


def shaped(value: Any, shape: Any) -> Any:
    """Return what of a JSON value has the shape; None if nothing has."""
    if shape is _ANYTHING:
        return value
    if isinstance(shape, Mapping):
        return _fields(value, shape) if isinstance(value, Mapping) else None
    if isinstance(shape, list):
        if not isinstance(value, list | tuple):
            return None
        items = (shaped(item, shape[0]) for item in islice(value, SEEN_ITEMS))
        return [item for item in items if item is not None]
    if not isinstance(shape, type):
        found = shaped(value, type(shape))
        return shape if found is None else found
    if not isinstance(value, shape) or (shape is int and isinstance(value, bool)):
        return None
    return shortened(value, MESSAGE_BYTES) if isinstance(value, str) and len(value) * 4 > MESSAGE_BYTES else value


def _fields(value: Mapping[Any, Any], shape: Mapping[Any, Any]) -> dict[str, Any]:
    if str in shape:
        items = islice(((name, item) for name, item in value.items() if isinstance(name, str)), SEEN_ITEMS)
        found = {name: shaped(item, shape[str]) for name, item in items}
    else:
        found = {name: shaped(value.get(name), part) for name, part in shape.items()}
    return {name: item for name, item in found.items() if item is not None}
