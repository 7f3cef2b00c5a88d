"""What KServe does for each type of server: labels, variables and arguments (docs/kserve.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isvc_operator.api.names import (
    LABEL_MODEL_CLASS,
    LABEL_SERVICE_ENVELOPE,
    MODELS_MOUNT,
    PREDICTOR,
)
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import http_port
from isvc_operator.resolve.containers import flag_value, merge_items
from isvc_operator.resolve.context import Context, ModelOnRuntime
from isvc_operator.resolve.runtime import MLSERVER, TORCHSERVE, TRITON, server_type_of

_ENVELOPES = {"v1": "kserve", "v2": "kservev2", "grpc-v2": "kservev2"}
_MODEL_CLASSES = {
    "xgboost": "mlserver_xgboost.XGBoostModel",
    "lightgbm": "mlserver_lightgbm.LightGBMModel",
    "mlflow": "mlserver_mlflow.MLflowRuntime",
}
_OTHER_MODEL_CLASS = "mlserver_sklearn.SKLearnModel"
_MODEL_CONTROL = "--model-control-mode"
_READY = {"periodSeconds": 5, "timeoutSeconds": 2, "failureThreshold": 3}


@dataclass(frozen=True)
class ServerDefaults:
    """What a server gets in addition to what its runtime and its service set.

    ``ready_path`` is where its HTTP port says whether it is ready.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    ready_path: str | None = None


def defaults_of(served: ModelOnRuntime, context: Context) -> ServerDefaults:
    """Return the defaults for a predictor's server."""
    service, protocol = context.service.metadata, served.chosen.protocol
    server_type, request = server_type_of(served.chosen.runtime), context.storage.requests[PREDICTOR]
    stored = request.spec is not None or bool(request.sources)  # the pod gets a model in the folder of models
    if server_type == TORCHSERVE:
        envelope = service.labels.get(LABEL_SERVICE_ENVELOPE, _ENVELOPES.get(protocol, _ENVELOPES["v1"]))
        return ServerDefaults(labels={LABEL_SERVICE_ENVELOPE: envelope}, env={"PROTOCOL_VERSION": protocol})
    if server_type == MLSERVER:
        model = {"MLSERVER_MODEL_NAME": service.name, "MLSERVER_MODEL_URI": MODELS_MOUNT}
        return ServerDefaults(
            labels={LABEL_MODEL_CLASS: _MODEL_CLASSES.get(served.model.model_format.name, _OTHER_MODEL_CLASS)},
            env=model if stored else {"MLSERVER_LOAD_MODELS_AT_STARTUP": "false"},
            # It opens its port before it has loaded the model: KServe's probe of the port would send it requests.
            ready_path="/v2/health/ready",
        )
    if server_type == TRITON and not stored:
        return ServerDefaults(flags={_MODEL_CONTROL: "explicit"})
    return ServerDefaults()


def with_defaults_of_type(container: Container, own: Container, defaults: ServerDefaults) -> dict[str, Any]:
    """Return the container with the defaults, which replace the runtime's values; ``own`` is what the service sets.

    The variables come first, so that others can refer to them.
    """
    chosen = {item.get("name") for item in own.get("env", ())}
    kept = [
        item for item in container.get("env", ()) if item.get("name") in chosen or item.get("name") not in defaults.env
    ]
    variables = [{"name": name, "value": value} for name, value in defaults.env.items()]
    flags = [f"{flag}={value}" for flag, value in defaults.flags.items() if flag_value(own, flag) is None]
    completed = dict(container)
    if env := merge_items(variables, kept, "name"):
        completed["env"] = env
    if flags:
        completed["args"] = [*container.get("args", ()), *flags]
    if defaults.ready_path:
        action: Mapping[str, Any] = {"httpGet": {"path": defaults.ready_path, "port": http_port(container)}}
        completed.setdefault("readinessProbe", {**action, **_READY})
    return completed
