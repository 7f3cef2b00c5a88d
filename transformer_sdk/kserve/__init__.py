"""KServe's SDK by the same names: `from kserve import Model` becomes `from transformer_sdk.kserve import Model`.

Names are imported on first use, so that a process imports only what it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer_sdk.kserve import errors, logging, model_server, utils
    from transformer_sdk.kserve.constants import constants
    from transformer_sdk.kserve.grpc_client import InferenceGRPCClient
    from transformer_sdk.kserve.inference_client import InferenceRESTClient, RESTConfig
    from transformer_sdk.kserve.model import Model
    from transformer_sdk.kserve.model_repository import ModelRepository
    from transformer_sdk.kserve.model_server import ModelServer
    from transformer_sdk.kserve.predictor_config import PredictorConfig
    from transformer_sdk.kserve.protocol.infer_type import InferInput, InferOutput, InferRequest, InferResponse

_HOMES = {
    "Model": "model",
    "ModelServer": "model_server",
    "ModelRepository": "model_repository",
    "PredictorConfig": "predictor_config",
    "InferenceRESTClient": "inference_client",
    "RESTConfig": "inference_client",
    "InferenceGRPCClient": "grpc_client",
    **dict.fromkeys(("InferInput", "InferOutput", "InferRequest", "InferResponse"), "protocol.infer_type"),
}
_MODULES = {
    "constants": "constants.constants",
    "errors": "errors",
    "logging": "logging",
    "model_server": "model_server",
    "utils": "utils.utils",
}

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
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{_MODULES[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
