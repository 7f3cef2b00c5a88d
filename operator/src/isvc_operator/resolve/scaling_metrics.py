"""Decides by which metrics a component is scaled, from KServe's two ways to write them. Pure.

The short way is ``scaleMetric`` and ``scaleTarget``, the other one ``autoScaling.metrics``, which wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from isvc_operator.api.autoscaling import ExternalMetric, MetricsSpec, MetricTarget, PodMetric
from isvc_operator.api.autoscaling import ResourceMetric as ResourceMetricSpec
from isvc_operator.api.components import ComponentExtensionSpec
from isvc_operator.api.core_shapes import quantity
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.component import Metric, Query, ResourceTarget

DEFAULT_CPU = 80  # percent; KServe's, and Kubernetes' own
_RESOURCES = ("cpu", "memory")
# The field of a metric for each of its types.
_PARTS: Mapping[str, str] = {"Resource": "resource", "External": "external", "PodMetric": "podmetric"}
# The types of a target by the value that is used. A query's value is for each pod, whatever the type.
_TYPES: Mapping[str, Sequence[str]] = {"average_utilization": ("Utilization",), "average_value": ("AverageValue",)}
_OF_QUERIES = ("Value", "AverageValue")
_GRAPHITE_RANGE = "-1Minutes"  # KEDA requires one; KServe has no field for it


@dataclass(frozen=True)
class ComponentPlace:
    """A component's place in the service, such as ``spec.predictor``, and the Deployment that it becomes."""

    field: str
    namespace: str
    deployment: str


@dataclass(frozen=True)
class Found:
    """The metrics, never none, and what of the fields has no effect."""

    metrics: tuple[Metric, ...]
    ignored: tuple[str, ...] = ()


_DEFAULT = ResourceTarget("cpu", DEFAULT_CPU)
_INSTEAD = f"the pods are scaled by cpu, at {DEFAULT_CPU} % of what they request"


def metrics_for_hpa(component: ComponentExtensionSpec, place: ComponentPlace) -> Found:
    """Return the metrics for a HorizontalPodAutoscaler: cpu and memory; raises InvalidSpec."""

    def read(metric: MetricsSpec, at: str) -> Found:
        if metric.type == "Resource" and metric.resource:
            return _resource(metric.resource, at)
        why = "a HorizontalPodAutoscaler reads cpu and memory; KEDA runs queries: annotation autoscalerClass: keda"
        return Found((), (f"{at} ({why})",))

    return _metrics(component, place, read)


def metrics_for_keda(component: ComponentExtensionSpec, place: ComponentPlace, scaler_address: str) -> Found:
    """Return the metrics for a ScaledObject; raises InvalidSpec.

    ``scaler_address`` is that of the scaler which gets the pods' own metrics.
    """

    def read(metric: MetricsSpec, at: str) -> Found:
        if metric.type == "External" and metric.external:
            return _external(metric.external, at)
        if metric.type == "PodMetric" and metric.podmetric:
            return _pod_metric(metric.podmetric, at, place, scaler_address)
        if metric.type == "Resource" and metric.resource:
            return _resource(metric.resource, at)
        return Found((), (f"{at} (its type is {metric.type}, and it has no {_PARTS[metric.type]})",))

    return _metrics(component, place, read)


def _metrics(
    component: ComponentExtensionSpec, place: ComponentPlace, read: Callable[[MetricsSpec, str], Found]
) -> Found:
    given = (component.auto_scaling.metrics if component.auto_scaling else None) or []
    if not given:
        return _short_form(component, place.field)
    field = f"{place.field}.autoScaling"
    found = [read(metric, f"{field}.metrics[{index}]") for index, metric in enumerate(given)]
    metrics = tuple(metric for one in found for metric in one.metrics)
    ignored = [name for one in found for name in one.ignored]
    for index, metric in enumerate(given):
        others = (name for type_, name in _PARTS.items() if type_ != metric.type and getattr(metric, name))
        ignored += [f"{field}.metrics[{index}].{name} (type is {metric.type})" for name in others]
    short = {"scaleTarget": component.scale_target, "scaleMetric": component.scale_metric,
             "scaleMetricType": component.scale_metric_type}  # fmt: skip
    ignored += [f"{place.field}.{name} (autoScaling.metrics is used)" for name, value in short.items() if value]
    return Found(metrics or (_DEFAULT,), tuple(ignored))


def _short_form(component: ComponentExtensionSpec, field: str) -> Found:
    """Read ``scaleMetric`` and ``scaleTarget``: a percentage of the requested cpu or memory."""
    metric, target, type_ = component.scale_metric or "cpu", component.scale_target, component.scale_metric_type
    ignored = []
    if type_ not in (None, "Utilization"):
        ignored.append(
            f"{field}.scaleMetricType: {type_} (scaleTarget is a percentage; autoScaling.metrics has values)"
        )
    if metric not in _RESOURCES:
        other = f"{field}.scaleMetric: {metric} ({_INSTEAD}; KEDA scales by requests: see docs/autoscaling.md)"
        unread = () if target is None else (f"{field}.scaleTarget (it is for {metric})",)
        return Found((_DEFAULT,), (other, *unread, *ignored))
    if target is not None and target < 1:
        raise InvalidSpec(f"{field}.scaleTarget is {target}; write a percentage above 0, or leave it out")
    if metric == "memory" and target is None:
        ignored.append(f"{field}.scaleMetric: memory (without scaleTarget {_INSTEAD}; give a percentage)")
        return Found((_DEFAULT,), tuple(ignored))
    return Found((ResourceTarget(metric, target or DEFAULT_CPU),), tuple(ignored))


def _resource(metric: ResourceMetricSpec, at: str) -> Found:
    target = metric.target
    utilization, average = target.average_utilization, target.average_value
    if utilization is not None and utilization < 1:
        raise InvalidSpec(f"{at}.resource.target.averageUtilization is {utilization}; write a percentage above 0")
    if average is not None and (quantity(average) or 0) <= 0:
        raise InvalidSpec(
            f"{at}.resource.target.averageValue is {average}; write a quantity above 0, such as 500m or 4Gi"
        )
    if average is not None and (utilization is None or target.type != "Utilization"):
        unread = _unread(target, f"{at}.resource.target", used="average_value")
        return Found((ResourceTarget(metric.name, average=str(average)),), unread)
    if utilization is not None:
        return Found(
            (ResourceTarget(metric.name, utilization),),
            _unread(target, f"{at}.resource.target", used="average_utilization"),
        )
    if metric.name == "cpu" and target.type in (None, "Utilization") and target.value is None:
        return Found((_DEFAULT,))
    why = f"{metric.name} has no target that can be used; give averageUtilization or averageValue"
    return Found((), (f"{at}.resource.target ({why})",))


def _external(metric: ExternalMetric, at: str) -> Found:
    source, login = metric.metric, metric.authentication_ref
    backend = source.backend or "prometheus"
    metadata = {
        "serverAddress": _required(source.server_address, f"{at}.external.metric.serverAddress"),
        "query": _required(source.query, f"{at}.external.metric.query"),
        "threshold": _value(metric.target, f"{at}.external.target"),
    }
    ignored = _unread(metric.target, f"{at}.external.target", used=_used(metric.target), query=True)
    if backend == "graphite":
        metadata["queryTime"] = _GRAPHITE_RANGE
    if source.namespace and backend == "prometheus":
        metadata["namespace"] = source.namespace
    elif source.namespace:
        ignored = (*ignored, f"{at}.external.metric.namespace (graphite has no namespaces)")
    if login and login.auth_modes:
        metadata["authModes"] = login.auth_modes
    authentication = login.authentication_ref.name if login else None
    return Found((Query(backend, _items(metadata), authentication),), ignored)


def _pod_metric(metric: PodMetric, at: str, place: ComponentPlace, scaler_address: str) -> Found:
    source = metric.metric
    query = _required(source.query, f"{at}.podmetric.metric.query")
    address = source.server_address or scaler_address
    metadata = {
        "scalerAddress": address,
        "metricQuery": f'sum({query}{{namespace="{place.namespace}", deployment="{place.deployment}"}})',
        "targetValue": _value(metric.target, f"{at}.podmetric.target"),
    }
    if source.operation_over_time:
        metadata["operationOverTime"] = source.operation_over_time
    why = f"no OpenTelemetryCollector is made; one of your own has to send the pods' metrics to {address}"
    unread = _unread(metric.target, f"{at}.podmetric.target", used=_used(metric.target), query=True)
    return Found((Query("external", _items(metadata)),), (f"{at}.podmetric.metric.metricNames ({why})", *unread))


def _items(metadata: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(metadata.items())


def _required(value: str | None, at: str) -> str:
    if not value:
        raise InvalidSpec(f"{at} is not set; a metric of this type needs it")
    return value


def _value(target: MetricTarget, at: str) -> str:
    value = getattr(target, _used(target))
    if value is None:
        raise InvalidSpec(f"{at}.value is not set; write the value that each pod should have")
    return str(value)


def _used(target: MetricTarget) -> str:
    """Return the field of a query's target that is used: its value for each pod."""
    return "average_value" if target.value is None else "value"


def _unread(target: MetricTarget, at: str, *, used: str, query: bool = False) -> tuple[str, ...]:
    """Name what is set beside the value that is used: other values, and the type of another one."""
    types = _OF_QUERIES if query else _TYPES[used]
    fields = MetricTarget.model_fields
    others = [name for name in ("value", "average_value", "average_utilization") if name != used]
    unread = [f"{at}.{fields[name].alias}" for name in others if getattr(target, name) is not None]
    if target.type not in (None, *types):
        unread.append(f"{at}.type: {target.type}")
    return tuple(f"{name} ({fields[used].alias} is used)" for name in unread)
