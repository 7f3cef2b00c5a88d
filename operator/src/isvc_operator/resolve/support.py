"""What a service asks for that this version does not do: told in a condition, never dropped in silence."""

from __future__ import annotations

from collections.abc import Iterator

from isvc_operator.api.components import FRAMEWORKS, PredictorSpec
from isvc_operator.api.inference_service import InferenceServiceSpec
from isvc_operator.resolve.settings import settings_of

_COMPONENTS = ("transformer", "explainer", "canary")
_PREDICTOR = (
    "worker_spec",
    "scale_target",
    "scale_metric",
    "scale_metric_type",
    "auto_scaling",
    "container_concurrency",
    "canary_traffic_percent",
    "logger",
)


def unsupported_fields(spec: InferenceServiceSpec) -> tuple[str, ...]:
    """Paths of fields that are set and not honoured, each with what happens instead."""
    return (*_components(spec), *_predictor(spec.predictor), *_model(spec.predictor))


def _components(spec: InferenceServiceSpec) -> Iterator[str]:
    for name in _COMPONENTS:
        if getattr(spec, name):
            yield f"spec.{name} (the predictor is served without it)"


def _predictor(predictor: PredictorSpec) -> Iterator[str]:
    for name in _PREDICTOR:
        if getattr(predictor, name) is not None:
            yield f"spec.predictor.{PredictorSpec.model_fields[name].alias}"
    for setting in settings_of(predictor):
        if not setting.usable:
            yield f"{setting.field}: {setting.value} (the server's default holds; give a number above 0)"
    if predictor.min_replicas == 0:
        yield "spec.predictor.minReplicas: 0 (one pod is kept)"
    if (predictor.max_replicas or 0) > (predictor.min_replicas or 1):
        yield "spec.predictor.maxReplicas (the number of pods stays at minReplicas)"


def _model(predictor: PredictorSpec) -> Iterator[str]:
    for name in ("model", *FRAMEWORKS):
        extension = getattr(predictor, name)
        if extension and extension.confidential and extension.confidential.enabled:
            yield f"spec.predictor.{name}.confidential (the model is read as it is)"
