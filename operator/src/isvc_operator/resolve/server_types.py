"""What KServe does for each type of server: labels, variables and arguments (contract §1.6, §3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.names import (
    LABEL_MODEL_CLASS,
    LABEL_SERVICE_ENVELOPE,
    MODELS_MOUNT,
)
from isvc_operator.resolve.runtime import MLSERVER, TORCHSERVE, TRITON, ChosenRuntime, server_type_of

_ENVELOPES = {"v1": "kserve", "v2": "kservev2", "grpc-v2": "kservev2"}
_MODEL_CLASSES = {
    "xgboost": "mlserver_xgboost.XGBoostModel",
    "lightgbm": "mlserver_lightgbm.LightGBMModel",
    "mlflow": "mlserver_mlflow.MLflowRuntime",
}
_OTHER_MODEL_CLASS = "mlserver_sklearn.SKLearnModel"
_MODEL_CONTROL = "--model-control-mode"


@dataclass(frozen=True)
class ServerDefaults:
    """What a server gets in addition to what its runtime and its service set.

    ``ready_path`` is where its HTTP port says whether it is ready.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    ready_path: str | None = None


def defaults_of(chosen: ChosenRuntime, service: ObjectMeta, model_format: str, *, stored: bool) -> ServerDefaults:
    """Return the defaults for a server; ``stored`` is whether the pod gets a model in the folder of models."""
    server_type, protocol = server_type_of(chosen.runtime), chosen.protocol
    if server_type == TORCHSERVE:
        envelope = service.labels.get(LABEL_SERVICE_ENVELOPE, _ENVELOPES.get(protocol, _ENVELOPES["v1"]))
        return ServerDefaults(labels={LABEL_SERVICE_ENVELOPE: envelope}, env={"PROTOCOL_VERSION": protocol})
    if server_type == MLSERVER:
        model = {"MLSERVER_MODEL_NAME": service.name, "MLSERVER_MODEL_URI": MODELS_MOUNT}
        return ServerDefaults(
            labels={LABEL_MODEL_CLASS: _MODEL_CLASSES.get(model_format, _OTHER_MODEL_CLASS)},
            env=model if stored else {"MLSERVER_LOAD_MODELS_AT_STARTUP": "false"},
            # It opens its port before it has loaded the model: KServe's probe of the port would send it requests.
            ready_path="/v2/health/ready",
        )
    if server_type == TRITON and not stored:
        return ServerDefaults(flags={_MODEL_CONTROL: "explicit"})
    return ServerDefaults()
