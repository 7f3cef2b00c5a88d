"""Step: who sets the number of a component's pods, and by what: the user, or an autoscaler.

As with KServe, the annotation ``autoscalerClass`` names the autoscaler: ``hpa`` (the default), ``keda``, ``external``
for one of the user's own, or ``none``. An autoscaler is made where ``maxReplicas`` gives it room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from isvc_operator.api.names import ANNOTATION_AUTOSCALER
from isvc_operator.resolve.component import Autoscaler, Component, Context, ResourceTarget, Scaling
from isvc_operator.resolve.requested import AutoscalerClass
from isvc_operator.resolve.scaling_metrics import Finding, metrics_for_hpa, metrics_for_keda


def scaling(component: Component, context: Context) -> Component:
    """Return the component with its number of pods, or its autoscaler; raises InvalidSpec."""
    match class_of({**context.service.metadata.annotations, **(context.requested.spec.annotations or {})}):
        case AutoscalerClass.EXTERNAL:
            decided = Scaling(ignored=_unused(context, _LEFT_TO_OTHERS, "min_replicas", "max_replicas"))
        case AutoscalerClass.NONE:
            decided = _fixed(context, "autoscalerClass none: no autoscaler is made")
        case AutoscalerClass.KEDA if not context.keda:
            decided = Scaling(_replicas(context), ignored=(_NO_KEDA,), lacks_keda=True)
        case AutoscalerClass.KEDA:
            decided = _by_keda(context)
        case AutoscalerClass.HPA:
            decided = _by_hpa(context)
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


def _by_hpa(context: Context) -> Scaling:
    spec = context.requested.spec
    minimum, maximum = max(1, spec.min_replicas or 0), spec.max_replicas or 0
    if maximum <= minimum:
        return _fixed(context, _NO_ROOM)
    made = Autoscaler(AutoscalerClass.HPA, minimum, maximum, (), _behavior(context))
    return _scaled(made, metrics_for_hpa(context), _zero(context, _ONE_KEPT))


def _by_keda(context: Context) -> Scaling:
    spec = context.requested.spec
    minimum = 1 if spec.min_replicas is None else spec.min_replicas
    maximum = max(spec.max_replicas or 0, minimum, 1)
    if maximum == minimum:
        return _fixed(context, _NO_ROOM)
    found = [*metrics_for_keda(context)]
    ignored: tuple[str, ...] = ()
    if minimum == 0 and all(isinstance(item, ResourceTarget | str) for item in found):
        if maximum == 1:
            return _fixed(context, _CANNOT_WAKE, kept=_CANNOT_WAKE)
        minimum, ignored = 1, _zero(context, _CANNOT_WAKE)
    return _scaled(Autoscaler(AutoscalerClass.KEDA, minimum, maximum, (), _behavior(context)), found, ignored)


def _scaled(autoscaler: Autoscaler, found: Iterable[Finding], ignored: tuple[str, ...]) -> Scaling:
    """Return an autoscaler with the metrics that were found, after what of the fields has no effect."""
    texts, metrics = list(ignored), []
    for item in found:
        if isinstance(item, str):
            texts.append(item)
        else:
            metrics.append(item)
    return Scaling(autoscaler=replace(autoscaler, metrics=tuple(metrics)), ignored=tuple(texts))


def _fixed(context: Context, why: str, *, kept: str = _ONE_KEPT) -> Scaling:
    """Return the number of pods that the user has set, if any; ``kept`` says why one pod is kept in place of none."""
    spec = context.requested.spec
    beyond = ("max_replicas",) if (spec.max_replicas or 0) > max(1, spec.min_replicas or 0) else ()
    return Scaling(_replicas(context), ignored=(*_zero(context, kept), *_unused(context, why, *beyond)))


def _replicas(context: Context) -> int | None:
    given = context.requested.spec.min_replicas
    return None if given is None else max(1, given)


def _zero(context: Context, instead: str) -> tuple[str, ...]:
    requested = context.requested
    return (f"{requested.field}.minReplicas: 0 ({instead})",) if requested.spec.min_replicas == 0 else ()


def _unused(context: Context, why: str, *more: str) -> tuple[str, ...]:
    """Name the fields for an autoscaler that are set, and ``more`` of the component's."""
    spec = context.requested.spec
    names = (name for name in (*more, *_TUNING) if getattr(spec, name) is not None)
    return tuple(f"{context.requested.field}.{type(spec).model_fields[name].alias} ({why})" for name in names)


def _behavior(context: Context) -> dict[str, Any]:
    """Return the user's behavior over the stabilization windows of the ConfigMap."""
    wanted, config = context.requested.spec.auto_scaling, context.config.autoscaler
    given = wanted.behavior if wanted else None
    own = {name: _rules(rules) for name, rules in (given.known_fields() if given else {}).items()}
    windows = {
        "scaleUp": config.scale_up_stabilization_window_seconds,
        "scaleDown": config.scale_down_stabilization_window_seconds,
    }
    defaults = {
        name: {"stabilizationWindowSeconds": seconds} for name, seconds in windows.items() if seconds is not None
    }
    return {**own, **{name: {**default, **own.get(name, {})} for name, default in defaults.items()}}


def _rules(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rules without an empty list of policies, which the API server refuses: it means the default ones."""
    return {name: value for name, value in rules.items() if name != "policies" or value}
