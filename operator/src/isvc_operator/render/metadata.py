"""What every child has: KServe's labels, and the service as its owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.inference_service import API_VERSION, KIND
from isvc_operator.api.kinds import kind_named
from isvc_operator.api.names import LABEL_APP, LABEL_COMPONENT, LABEL_SERVICE, app_label
from isvc_operator.resolve.component import Component

_NONE: Mapping[str, str] = {}


def build_child(
    service: ObjectMeta,
    kind: str,
    name: str,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    spec: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a child, which is garbage-collected with the service."""
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": service.name,
        "uid": service.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": kind_named(kind).api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": service.namespace,
            "labels": dict(labels),
            "annotations": dict(annotations),
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def build_component_child(
    service: ObjectMeta,
    component: Component,
    kind: str,
    spec: Mapping[str, Any],
    *,
    annotations: Mapping[str, str] = _NONE,
) -> dict[str, Any]:
    """Return a child of a component, which has its name; the user's annotations win over ``annotations``."""
    return build_child(
        service,
        kind,
        component.name,
        labels=component_labels(service, component),
        annotations={**annotations, **component.annotations},
        spec=spec,
    )


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
