"""Step: who sets the number of a component's pods, and by what: the user, or an autoscaler.

As with KServe, the annotation ``autoscalerClass`` names the autoscaler: ``hpa`` (the default), ``keda``, ``external``
for one of the user's own, or ``none``. An autoscaler is made where ``maxReplicas`` gives it room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from isvc_operator.api.components import ComponentExtensionSpec
from isvc_operator.api.names import ANNOTATION_AUTOSCALER
from isvc_operator.config import OperatorConfig
from isvc_operator.resolve.component import Autoscaler, Component, Context, ResourceTarget, Scaling
from isvc_operator.resolve.requested import AutoscalerClass
from isvc_operator.resolve.scaling_metrics import ComponentPlace, metrics_for_hpa, metrics_for_keda


def scaling(component: Component, context: Context) -> Component:
    """Return the component with its number of pods, or its autoscaler; raises InvalidSpec."""
    metadata, spec = context.service.metadata, context.requested.spec
    place = ComponentPlace(context.requested.field, metadata.namespace or "", component.name)
    match class_of({**metadata.annotations, **(spec.annotations or {})}):
        case AutoscalerClass.EXTERNAL:
            decided = Scaling(ignored=_unused(spec, place, _LEFT_TO_OTHERS, "min_replicas", "max_replicas"))
        case AutoscalerClass.NONE:
            decided = _fixed(spec, place, "autoscalerClass none: no autoscaler is made")
        case AutoscalerClass.KEDA if not context.keda:
            decided = Scaling(_replicas(spec), ignored=(_NO_KEDA,), lacks_keda=True)
        case AutoscalerClass.KEDA:
            decided = _by_keda(spec, place, context.config)
        case AutoscalerClass.HPA:
            decided = _by_hpa(spec, place, context.config)
    return replace(component, scaling=decided)


def class_of(annotations: Mapping[str, str]) -> AutoscalerClass:
    """Return the autoscaler class; an unknown one, which ``support`` names, counts as the default."""
    try:
        return AutoscalerClass(annotations.get(ANNOTATION_AUTOSCALER, AutoscalerClass.HPA.value))
    except ValueError:
        return AutoscalerClass.HPA


_LEFT_TO_OTHERS = "autoscalerClass external leaves the number of pods to your own autoscaler"
_NO_ROOM = "no autoscaler is made, as maxReplicas is not above minReplicas"
_NO_KEDA = (
    f"annotation {ANNOTATION_AUTOSCALER}: keda (the cluster has no KEDA, so no ScaledObject is made and the number of "
    "pods stays as it is; install KEDA, or write hpa)"
)
_ONE_KEPT = "one pod is kept; KEDA scales to zero: annotation autoscalerClass: keda"
_CANNOT_WAKE = "one pod is kept: cpu and memory do not tell when to start the first pod; add a metric of type External"
_TUNING = ("scale_target", "scale_metric", "scale_metric_type", "auto_scaling")


def _by_hpa(component: ComponentExtensionSpec, place: ComponentPlace, config: OperatorConfig) -> Scaling:
    minimum = max(1, component.min_replicas or 0)
    if (component.max_replicas or 0) <= minimum:
        return _fixed(component, place, _NO_ROOM)
    found = metrics_for_hpa(component, place)
    ignored = (*_zero(component, place, _ONE_KEPT), *found.ignored)
    behavior = _behavior(component, config)
    return Scaling(
        autoscaler=Autoscaler(AutoscalerClass.HPA, minimum, component.max_replicas or 0, found.metrics, behavior),
        ignored=ignored,
    )


def _by_keda(component: ComponentExtensionSpec, place: ComponentPlace, config: OperatorConfig) -> Scaling:
    minimum = 1 if component.min_replicas is None else component.min_replicas
    maximum = max(component.max_replicas or 0, minimum, 1)
    if maximum == minimum:
        return _fixed(component, place, _NO_ROOM)
    found = metrics_for_keda(component, place, config.opentelemetry_collector.metric_scaler_endpoint)
    ignored = found.ignored
    if minimum == 0 and all(isinstance(metric, ResourceTarget) for metric in found.metrics):
        if maximum == 1:
            return _fixed(component, place, _CANNOT_WAKE, kept=_CANNOT_WAKE)
        minimum, ignored = 1, (*_zero(component, place, _CANNOT_WAKE), *ignored)
    behavior = _behavior(component, config)
    return Scaling(
        autoscaler=Autoscaler(AutoscalerClass.KEDA, minimum, maximum, found.metrics, behavior), ignored=ignored
    )


def _fixed(component: ComponentExtensionSpec, place: ComponentPlace, why: str, *, kept: str = _ONE_KEPT) -> Scaling:
    """Return the number of pods that the user has set, if any; ``kept`` says why one pod is kept in place of none."""
    beyond = ("max_replicas",) if (component.max_replicas or 0) > max(1, component.min_replicas or 0) else ()
    ignored = (*_zero(component, place, kept), *_unused(component, place, why, *beyond))
    return Scaling(_replicas(component), ignored=ignored)


def _replicas(component: ComponentExtensionSpec) -> int | None:
    return None if component.min_replicas is None else max(1, component.min_replicas)


def _zero(component: ComponentExtensionSpec, place: ComponentPlace, instead: str) -> tuple[str, ...]:
    return (f"{place.field}.minReplicas: 0 ({instead})",) if component.min_replicas == 0 else ()


def _unused(component: ComponentExtensionSpec, place: ComponentPlace, why: str, *more: str) -> tuple[str, ...]:
    """Name the fields for an autoscaler that are set, and ``more`` of the component's."""
    fields = type(component).model_fields
    names = (name for name in (*more, *_TUNING) if getattr(component, name) is not None)
    return tuple(f"{place.field}.{fields[name].alias} ({why})" for name in names)


def _behavior(component: ComponentExtensionSpec, config: OperatorConfig) -> dict[str, Any]:
    """Return the user's behavior over the stabilization windows of the ConfigMap."""
    given = component.auto_scaling.behavior if component.auto_scaling else None
    own = {name: _rules(rules) for name, rules in (given.known_fields() if given else {}).items()}
    windows = {
        "scaleUp": config.autoscaler.scale_up_stabilization_window_seconds,
        "scaleDown": config.autoscaler.scale_down_stabilization_window_seconds,
    }
    defaults = {
        name: {"stabilizationWindowSeconds": seconds} for name, seconds in windows.items() if seconds is not None
    }
    return {**own, **{name: {**default, **own.get(name, {})} for name, default in defaults.items()}}


def _rules(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rules without an empty list of policies, which the API server refuses: it means the default ones."""
    return {name: value for name, value in rules.items() if name != "policies" or value}
