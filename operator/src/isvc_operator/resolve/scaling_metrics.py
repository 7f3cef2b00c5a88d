"""Decides by which metrics a component is scaled, from KServe's two ways to write them. Pure.

The short way is ``scaleMetric`` and ``scaleTarget``, the other one ``autoScaling.metrics``, which wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from isvc_operator.api.autoscaling import ExternalMetric, MetricsSpec, MetricTarget, PodMetric
from isvc_operator.api.autoscaling import ResourceMetric as ResourceMetricSpec
from isvc_operator.api.components import ComponentExtensionSpec
from isvc_operator.errors import InvalidSpec

DEFAULT_CPU = 80  # percent; KServe's, and Kubernetes' own
_RESOURCES = ("cpu", "memory")
_GRAPHITE_RANGE = "-1Minutes"  # KEDA requires one; KServe has no field for it


@dataclass(frozen=True)
class Place:
    """A component's place in the service, such as ``spec.predictor``, and the Deployment that it becomes."""

    field: str
    namespace: str
    deployment: str


@dataclass(frozen=True)
class ResourceTarget:
    """How much of ``cpu`` or ``memory`` a pod should use: a percentage of its requests, or a quantity."""

    resource: str
    utilization: int | None = None
    average: str | None = None


@dataclass(frozen=True)
class Query:
    """A query for KEDA: the type and the metadata of a trigger. ``authentication`` names a TriggerAuthentication."""

    type: str
    metadata: tuple[tuple[str, str], ...]
    authentication: str | None = None


Metric = ResourceTarget | Query


@dataclass(frozen=True)
class Found:
    """The metrics, never none, and what of the fields has no effect."""

    metrics: tuple[Metric, ...]
    ignored: tuple[str, ...] = ()


_DEFAULT = ResourceTarget("cpu", DEFAULT_CPU)
_INSTEAD = f"the pods are scaled by cpu, at {DEFAULT_CPU} % of what they request"


def metrics_for_hpa(component: ComponentExtensionSpec, place: Place) -> Found:
    """Return the metrics for a HorizontalPodAutoscaler: cpu and memory; raises InvalidSpec."""

    def read(metric: MetricsSpec, at: str) -> Found:
        if metric.resource:
            return _resource(metric.resource, at)
        why = "a HorizontalPodAutoscaler reads cpu and memory; KEDA runs queries: annotation autoscalerClass: keda"
        return Found((), (f"{at} ({why})",))

    return _metrics(component, place, read)


def metrics_for_keda(component: ComponentExtensionSpec, place: Place, scaler_address: str) -> Found:
    """Return the metrics for a ScaledObject; raises InvalidSpec.

    ``scaler_address`` is that of the scaler which gets the pods' own metrics.
    """

    def read(metric: MetricsSpec, at: str) -> Found:
        if metric.external:
            return _external(metric.external, at)
        if metric.podmetric:
            return _pod_metric(metric.podmetric, at, place, scaler_address)
        return _resource(metric.resource, at) if metric.resource else Found((), (f"{at} (it has no {metric.type})",))

    return _metrics(component, place, read)


def _metrics(component: ComponentExtensionSpec, place: Place, read: Callable[[MetricsSpec, str], Found]) -> Found:
    given = (component.auto_scaling.metrics if component.auto_scaling else None) or []
    if not given:
        return _short_form(component, place.field)
    found = [read(metric, f"{place.field}.autoScaling.metrics[{index}]") for index, metric in enumerate(given)]
    metrics = tuple(metric for one in found for metric in one.metrics)
    ignored = [name for one in found for name in one.ignored]
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
    if average is not None and target.type != "Utilization":
        return Found((ResourceTarget(metric.name, average=str(average)),))
    if utilization is not None:
        return Found((ResourceTarget(metric.name, utilization),))
    if metric.name == "cpu" and target.type in (None, "Utilization"):
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
    ignored = []
    if backend == "graphite":
        metadata["queryTime"] = _GRAPHITE_RANGE
    if source.namespace and backend == "prometheus":
        metadata["namespace"] = source.namespace
    elif source.namespace:
        ignored.append(f"{at}.external.metric.namespace (graphite has no namespaces)")
    if login and login.auth_modes:
        metadata["authModes"] = login.auth_modes
    authentication = login.authentication_ref.name if login else None
    return Found((Query(backend, _items(metadata), authentication),), tuple(ignored))


def _pod_metric(metric: PodMetric, at: str, place: Place, scaler_address: str) -> Found:
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
    return Found((Query("external", _items(metadata)),), (f"{at}.podmetric.metric.metricNames ({why})",))


def _items(metadata: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(metadata.items())


def _required(value: str | None, at: str) -> str:
    if not value:
        raise InvalidSpec(f"{at} is not set; a metric of this type needs it")
    return value


def _value(target: MetricTarget, at: str) -> str:
    given: Iterable[int | str | None] = (target.value, target.average_value)
    value = next((value for value in given if value is not None), None)
    if value is None:
        raise InvalidSpec(f"{at}.value is not set; write the value that each pod should have")
    return str(value)
