"""KServe's Python SDK for transformers and predictors, by the same names.

`import transformer_sdk as kserve` has `transformer_sdk.kserve`'s names, imported when they are first used;
`import transformer_sdk` alone costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer_sdk.kserve import (
        InferenceGRPCClient,
        InferenceRESTClient,
        InferInput,
        InferOutput,
        InferRequest,
        InferResponse,
        Model,
        ModelRepository,
        ModelServer,
        PredictorConfig,
        RESTConfig,
        constants,
        errors,
        logging,
        model_server,
        utils,
    )

__version__ = "0.2.0"

__all__ = [
    "InferInput",
    "InferOutput",
    "InferRequest",
    "InferResponse",
    "InferenceGRPCClient",
    "InferenceRESTClient",
    "Model",
    "ModelRepository",
    "ModelServer",
    "PredictorConfig",
    "RESTConfig",
    "constants",
    "errors",
    "logging",
    "model_server",
    "utils",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from transformer_sdk import kserve

    return getattr(kserve, name)
