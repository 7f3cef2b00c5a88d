"""What KServe does for each type of server: labels, variables, arguments and image tags (docs/kserve.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.names import (
    ANNOTATION_SERVER_TYPE,
    LABEL_MODEL_CLASS,
    LABEL_SERVICE_ENVELOPE,
    MODELS_MOUNT,
)
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import http_port
from isvc_operator.resolve.containers import merge_items, with_tag
from isvc_operator.resolve.flags import flag_value

MLSERVER: Final = "mlserver"
TORCHSERVE: Final = "torchserve"
TRITON: Final = "tritonserver"
TENSORFLOW_SERVING: Final = "tensorflow-serving"
HUGGING_FACE: Final = "huggingfaceserver"
VLLM: Final = "vllmserver"

# KServe's names of runtimes that have no annotation for their server's type.
_BY_NAME = {
    "kserve-mlserver": MLSERVER,
    "kserve-torchserve": TORCHSERVE,
    "kserve-tritonserver": TRITON,
    "kserve-tensorflow-serving": TENSORFLOW_SERVING,
    "kserve-huggingfaceserver": HUGGING_FACE,
    "kserve-vllmserver": VLLM,
}
_PROTOCOLS = {TORCHSERVE: "v1", MLSERVER: "v2", TRITON: "v2"}
_ENVELOPES = {"v1": "kserve", "v2": "kservev2", "grpc-v2": "kservev2"}
_MODEL_CLASSES = {
    "xgboost": "mlserver_xgboost.XGBoostModel",
    "lightgbm": "mlserver_lightgbm.LightGBMModel",
    "mlflow": "mlserver_mlflow.MLflowRuntime",
}
_OTHER_MODEL_CLASS = "mlserver_sklearn.SKLearnModel"
_MODEL_CONTROL = "--model-control-mode"

# Servers whose image for GPUs has the same tag with a suffix.
_WITH_GPU_TAG = (TENSORFLOW_SERVING, TORCHSERVE, HUGGING_FACE)
_GPU_TAG = "-gpu"
# vLLM's image without GPUs is another repository.
_CPU_REPOSITORY = "-cpu"
_READY = {"periodSeconds": 5, "timeoutSeconds": 2, "failureThreshold": 3}
_GPU, _GPU_PARTITION = "nvidia.com/gpu", "nvidia.com/mig"


@dataclass(frozen=True)
class ServerDefaults:
    """What a server gets in addition to what its runtime and its service set.

    ``ready_path`` is where its HTTP port says whether it is ready.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    ready_path: str | None = None


def server_type_of(runtime: ServingRuntime) -> str | None:
    """Return the type of the runtime's server: that of its annotation, or else of KServe's name for it."""
    named = _BY_NAME.get(runtime.metadata.name)
    return runtime.metadata.annotations.get(ANNOTATION_SERVER_TYPE) or named


def default_protocol_of(server_type: str | None) -> str | None:
    """Return the protocol of a model that names none, whichever protocols the runtime lists."""
    return _PROTOCOLS.get(server_type or "")


def defaults_of(
    server_type: str | None, service: ObjectMeta, *, model_format: str, protocol: str, stored: bool
) -> ServerDefaults:
    """Return the defaults for a server; ``stored`` is whether the pod gets a model in the folder of models."""
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


def with_defaults(container: Container, own: Container, defaults: ServerDefaults) -> dict[str, Any]:
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
        action = {"httpGet": {"path": defaults.ready_path, "port": http_port(container)}}
        completed.setdefault("readinessProbe", {**action, **_READY})
    return completed


def image_for(container: Container, server_type: str | None, version: str | None) -> str:
    """Return the container's image with the tag that the service asks for, by its version or by its GPUs.

    An image that is pinned by digest is returned unchanged.
    """
    image: str = container.get("image", "")
    if version and image:
        return with_tag(image, version)
    repository, separator, tag = image.rpartition(":")
    if "@" in image or not separator or "/" in tag:
        return image
    if server_type in _WITH_GPU_TAG and has_gpu(container) and not tag.endswith(_GPU_TAG):
        return f"{image}{_GPU_TAG}"
    if server_type == VLLM and not has_gpu(container) and not repository.endswith(_CPU_REPOSITORY):
        return f"{repository}{_CPU_REPOSITORY}:{tag}"
    return image


def has_gpu(container: Container) -> bool:
    """Whether the container may use a GPU of NVIDIA, or a part of one."""
    limits = container.get("resources", {}).get("limits", {})
    return any(name == _GPU or name.startswith(_GPU_PARTITION) for name in limits)
