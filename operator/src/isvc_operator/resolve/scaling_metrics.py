"""Decides by which metrics a component is scaled, from KServe's two ways to write them. Pure.

The short way is ``scaleMetric`` and ``scaleTarget``, the other one ``autoScaling.metrics``, which wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from isvc_operator.api.autoscaling import ExternalMetric, MetricsSpec, MetricTarget, PodMetric
from isvc_operator.api.autoscaling import ResourceMetric as ResourceMetricSpec
from isvc_operator.api.components import ComponentExtensionSpec
from isvc_operator.api.core_shapes import quantity
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.component import Context, Metric, Query, ResourceTarget

DEFAULT_CPU = 80  # percent; KServe's, and Kubernetes' own
_RESOURCES = ("cpu", "memory")
# The field of a metric for each of its types.
_PARTS: Mapping[str, str] = {"Resource": "resource", "External": "external", "PodMetric": "podmetric"}
# The types of a target by the value that is used. A query's value is for each pod, whatever the type.
_TYPES: Mapping[str, Sequence[str]] = {"average_utilization": ("Utilization",), "average_value": ("AverageValue",)}
_OF_QUERIES = ("Value", "AverageValue")
_GRAPHITE_RANGE = "-1Minutes"  # KEDA requires one; KServe has no field for it
_DEFAULT = ResourceTarget("cpu", DEFAULT_CPU)
_INSTEAD = f"the pods are scaled by cpu, at {DEFAULT_CPU} % of what they request"

Finding = Metric | str  # a metric to scale by, or what of the fields has no effect


def metrics_for_hpa(context: Context) -> Iterator[Finding]:
    """Yield the metrics for a HorizontalPodAutoscaler, cpu and memory, at least one; raises InvalidSpec."""

    def read(metric: MetricsSpec, at: str) -> Iterator[Finding]:
        if metric.type == "Resource" and metric.resource:
            yield from _resource(metric.resource, at)
        else:
            why = "a HorizontalPodAutoscaler reads cpu and memory; KEDA runs queries: annotation autoscalerClass: keda"
            yield f"{at} ({why})"

    return _metrics(context, read)


def metrics_for_keda(context: Context) -> Iterator[Finding]:
    """Yield the metrics for a ScaledObject, at least one; raises InvalidSpec."""

    def read(metric: MetricsSpec, at: str) -> Iterator[Finding]:
        if metric.type == "External" and metric.external:
            yield from _external(metric.external, at)
        elif metric.type == "PodMetric" and metric.podmetric:
            yield from _pod_metric(metric.podmetric, at, context)
        elif metric.type == "Resource" and metric.resource:
            yield from _resource(metric.resource, at)
        else:
            yield f"{at} (its type is {metric.type}, and it has no {_PARTS[metric.type]})"

    return _metrics(context, read)


def _metrics(context: Context, read: Callable[[MetricsSpec, str], Iterator[Finding]]) -> Iterator[Finding]:
    component, field = context.requested.spec, context.requested.field
    given = (component.auto_scaling.metrics if component.auto_scaling else None) or []
    if not given:
        yield from _short_form(component, field)
        return
    at = f"{field}.autoScaling.metrics"
    found = [item for index, metric in enumerate(given) for item in read(metric, f"{at}[{index}]")]
    if all(isinstance(item, str) for item in found):
        yield _DEFAULT
    yield from found
    for index, metric in enumerate(given):
        for type_, name in _PARTS.items():
            if type_ != metric.type and getattr(metric, name):
                yield f"{at}[{index}].{name} (type is {metric.type})"
    for name in ("scale_target", "scale_metric", "scale_metric_type"):
        if getattr(component, name):
            yield f"{field}.{type(component).model_fields[name].alias} (autoScaling.metrics is used)"


def _short_form(component: ComponentExtensionSpec, field: str) -> Iterator[Finding]:
    """Read ``scaleMetric`` and ``scaleTarget``: a percentage of the requested cpu or memory."""
    metric, target, type_ = component.scale_metric or "cpu", component.scale_target, component.scale_metric_type
    if metric not in _RESOURCES:
        yield _DEFAULT
        yield f"{field}.scaleMetric: {metric} ({_INSTEAD}; KEDA scales by requests: see docs/autoscaling.md)"
        if target is not None:
            yield f"{field}.scaleTarget (it is for {metric})"
    elif target is not None and target < 1:
        raise InvalidSpec(f"{field}.scaleTarget is {target}; write a percentage above 0, or leave it out")
    else:
        unknown = metric == "memory" and target is None
        yield _DEFAULT if unknown else ResourceTarget(metric, target or DEFAULT_CPU)
    if type_ not in (None, "Utilization"):
        yield f"{field}.scaleMetricType: {type_} (scaleTarget is a percentage; autoScaling.metrics has values)"
    if metric == "memory" and target is None:
        yield f"{field}.scaleMetric: memory (without scaleTarget {_INSTEAD}; give a percentage)"


def _resource(metric: ResourceMetricSpec, at: str) -> Iterator[Finding]:
    target, place = metric.target, f"{at}.resource.target"
    utilization, average = target.average_utilization, target.average_value
    if utilization is not None and utilization < 1:
        raise InvalidSpec(f"{place}.averageUtilization is {utilization}; write a percentage above 0")
    if average is not None and (quantity(average) or 0) <= 0:
        raise InvalidSpec(f"{place}.averageValue is {average}; write a quantity above 0, such as 500m or 4Gi")
    if average is not None and (utilization is None or target.type != "Utilization"):
        yield ResourceTarget(metric.name, average=str(average))
        yield from _unread(target, place, used="average_value")
    elif utilization is not None:
        yield ResourceTarget(metric.name, utilization)
        yield from _unread(target, place, used="average_utilization")
    elif metric.name == "cpu" and target.type in (None, "Utilization") and target.value is None:
        yield _DEFAULT
    else:
        yield f"{place} ({metric.name} has no target that can be used; give averageUtilization or averageValue)"


def _external(metric: ExternalMetric, at: str) -> Iterator[Finding]:
    source, login = metric.metric, metric.authentication_ref
    backend = source.backend or "prometheus"
    metadata = {
        "serverAddress": _required(source.server_address, f"{at}.external.metric.serverAddress"),
        "query": _required(source.query, f"{at}.external.metric.query"),
        "threshold": _value(metric.target, f"{at}.external.target"),
    }
    if backend == "graphite":
        metadata["queryTime"] = _GRAPHITE_RANGE
    elif source.namespace:
        metadata["namespace"] = source.namespace
    if login and login.auth_modes:
        metadata["authModes"] = login.auth_modes
    yield Query(backend, tuple(metadata.items()), login.authentication_ref.name if login else None)
    yield from _unread(metric.target, f"{at}.external.target", used=_used(metric.target), query=True)
    if backend == "graphite" and source.namespace:
        yield f"{at}.external.metric.namespace (graphite has no namespaces)"


def _pod_metric(metric: PodMetric, at: str, context: Context) -> Iterator[Finding]:
    source, service = metric.metric, context.service.metadata
    query = _required(source.query, f"{at}.podmetric.metric.query")
    address = source.server_address or context.config.opentelemetry_collector.metric_scaler_endpoint
    metadata = {
        "scalerAddress": address,
        "metricQuery": f'sum({query}{{namespace="{service.namespace or ""}", deployment="{context.requested.name}"}})',
        "targetValue": _value(metric.target, f"{at}.podmetric.target"),
    }
    if source.operation_over_time:
        metadata["operationOverTime"] = source.operation_over_time
    yield Query("external", tuple(metadata.items()))
    why = f"no OpenTelemetryCollector is made; one of your own has to send the pods' metrics to {address}"
    yield f"{at}.podmetric.metric.metricNames ({why})"
    yield from _unread(metric.target, f"{at}.podmetric.target", used=_used(metric.target), query=True)


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


def _unread(target: MetricTarget, at: str, *, used: str, query: bool = False) -> Iterator[str]:
    """Name what is set beside the value that is used: other values, and the type of another one."""
    fields = MetricTarget.model_fields
    for name in ("value", "average_value", "average_utilization"):
        if name != used and getattr(target, name) is not None:
            yield f"{at}.{fields[name].alias} ({fields[used].alias} is used)"
    if target.type not in (None, *(_OF_QUERIES if query else _TYPES[used])):
        yield f"{at}.type: {target.type} ({fields[used].alias} is used)"
