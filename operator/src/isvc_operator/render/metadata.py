"""The metadata of every child: KServe's labels, and the service as its owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.inference_service import API_VERSION, KIND
from isvc_operator.api.names import LABEL_APP, LABEL_COMPONENT, LABEL_SERVICE, app_label
from isvc_operator.resolve.component import Component


def child_metadata(
    service: ObjectMeta, name: str, *, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    """Return the metadata of a child, which is garbage-collected with the service."""
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": service.name,
        "uid": service.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": name,
        "namespace": service.namespace,
        "labels": dict(labels),
        "annotations": dict(annotations),
        "ownerReferences": [owner],
    }


def component_labels(service: ObjectMeta, component: Component) -> dict[str, str]:
    """Return the user's labels with ours over them (docs/kserve.md)."""
    ours = {
        LABEL_SERVICE: service.name,
        LABEL_COMPONENT: component.kind,
        LABEL_APP: app_label(component.name),
    }
    return {**component.labels, **ours}


def selector(child: str) -> dict[str, str]:
    """Return the labels that select a component's pods."""
    return {LABEL_APP: app_label(child)}
