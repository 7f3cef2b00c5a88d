"""What KServe's webhook would have filled in, worked out when the object is read.

Nothing is written back: a client that merges `pytorch:` onto a stored `model:` finds its object as it
left it.
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

# Formats whose servers speak the v2 protocol only: as framework keys and as names of a model's format.
_V2_FRAMEWORKS: Final = frozenset({"triton", "onnx", "huggingface"})
_V2_FORMATS: Final = frozenset({"triton", "vLLM"})


def model_of(predictor: PredictorSpec) -> ModelSpec | None:
    """The predictor's model in its one form, or None for a predictor of the user's own containers.

    An older framework key wins over `model`: a client that still sends it means the newer of the two.
    """
    for framework in FRAMEWORKS:
        extension: PredictorExtensionSpec | None = getattr(predictor, framework)
        if extension is not None:
            return _as_model(framework, extension)
    model = predictor.model
    if model is None or model.model_format.name not in _V2_FORMATS:
        return model
    return _speaking_v2(model)


def _as_model(framework: str, extension: PredictorExtensionSpec) -> ModelSpec:
    fields = extension.as_dict() | {"modelFormat": ModelFormat(name=framework).as_dict()}
    model = ModelSpec.model_validate(fields, by_alias=True, by_name=False)
    return _speaking_v2(model) if framework in _V2_FRAMEWORKS else model


def _speaking_v2(model: ModelSpec) -> ModelSpec:
    return model.model_copy(update={"protocol_version": model.protocol_version or "v2"})
