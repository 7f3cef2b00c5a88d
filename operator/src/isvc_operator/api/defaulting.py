"""The defaults of KServe's webhook, applied when the object is read.

They are not written back, so that a client that merges `pytorch:` into a stored `model:` finds its object unchanged.
"""

from __future__ import annotations

from typing import Final

from isvc_operator.api.components import (
    FRAMEWORKS,
    ModelFormat,
    ModelSpec,
    PredictorExtensionSpec,
    PredictorSpec,
)

# Formats whose servers support only the v2 protocol: as framework keys and as names of a model format.
_V2_FRAMEWORKS: Final = frozenset({"triton", "onnx", "huggingface"})
_V2_FORMATS: Final = frozenset({"triton", "vLLM"})


def model_of(predictor: PredictorSpec) -> ModelSpec | None:
    """Return the predictor's model, or None if it has the user's own containers.

    An older framework key is converted, and wins over `model`: a client that sends it has written it last.
    """
    for framework in FRAMEWORKS:
        extension: PredictorExtensionSpec | None = getattr(predictor, framework)
        if extension is not None:
            return _as_model(framework, extension)
    model = predictor.model
    if model is None or model.model_format.name not in _V2_FORMATS:
        return model
    return _with_v2(model)


def model_field(predictor: PredictorSpec) -> str:
    """Return the place of the predictor's model, for messages."""
    framework = next((name for name in FRAMEWORKS if getattr(predictor, name) is not None), "model")
    return f"spec.predictor.{framework}"


def _as_model(framework: str, extension: PredictorExtensionSpec) -> ModelSpec:
    fields = extension.as_dict() | {"modelFormat": ModelFormat(name=framework).as_dict()}
    model = ModelSpec.model_validate(fields, by_alias=True, by_name=False)
    return _with_v2(model) if framework in _V2_FRAMEWORKS else model


def _with_v2(model: ModelSpec) -> ModelSpec:
    return model.model_copy(update={"protocol_version": model.protocol_version or "v2"})
