"""A component's autoscaler: a HorizontalPodAutoscaler, or KEDA's ScaledObject (docs/autoscaling.md)."""

from __future__ import annotations

from typing import Any

from isvc_operator.api.kinds import HPA, SCALED_OBJECT, kind_named
from isvc_operator.render.metadata import child_metadata, component_labels
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.scaling import Autoscaler, AutoscalerClass
from isvc_operator.resolve.scaling_metrics import Metric, Query, ResourceTarget
from isvc_operator.resolve.service import Resolved


def build_autoscaler(resolved: Resolved, component: Component) -> dict[str, Any] | None:
    """Return the component's autoscaler, if the operator makes one."""
    autoscaler = component.scaling.autoscaler
    if autoscaler is None:
        return None
    by_keda = autoscaler.by is AutoscalerClass.KEDA
    kind = kind_named(SCALED_OBJECT if by_keda else HPA)
    service = resolved.service.metadata
    labels = component_labels(service, component)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": child_metadata(service, component.name, labels=labels, annotations=component.annotations),
        "spec": (_scaled_object if by_keda else _horizontal)(autoscaler, component.name),
    }


def _horizontal(autoscaler: Autoscaler, deployment: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment},
        "minReplicas": autoscaler.minimum,
        "maxReplicas": autoscaler.maximum,
        "metrics": [_metric(item) for item in autoscaler.metrics if isinstance(item, ResourceTarget)],
    }
    if autoscaler.behavior:
        spec["behavior"] = autoscaler.behavior
    return spec


def _metric(metric: ResourceTarget) -> dict[str, Any]:
    target: dict[str, Any] = {"type": "Utilization", "averageUtilization": metric.utilization}
    if metric.average is not None:
        target = {"type": "AverageValue", "averageValue": metric.average}
    return {"type": "Resource", "resource": {"name": metric.resource, "target": target}}


def _scaled_object(autoscaler: Autoscaler, deployment: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "scaleTargetRef": {"name": deployment},
        "minReplicaCount": autoscaler.minimum,
        "maxReplicaCount": autoscaler.maximum,
        "triggers": [_trigger(item) for item in autoscaler.metrics],
    }
    if autoscaler.behavior:
        spec["advanced"] = {"horizontalPodAutoscalerConfig": {"behavior": autoscaler.behavior}}
    return spec


def _trigger(metric: Metric) -> dict[str, Any]:
    if isinstance(metric, Query):
        login = {"authenticationRef": {"name": metric.authentication}} if metric.authentication else {}
        return {"type": metric.type, "metadata": dict(metric.metadata), **login}
    if metric.average is not None:
        return {"type": metric.resource, "metricType": "AverageValue", "metadata": {"value": metric.average}}
    return {"type": metric.resource, "metricType": "Utilization", "metadata": {"value": str(metric.utilization)}}
