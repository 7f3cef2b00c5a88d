"""What of a service has no effect as it is resolved: reported in a condition, never ignored."""

from __future__ import annotations

from collections.abc import Iterator

from isvc_operator.api.components import ModelSpec
from isvc_operator.api.defaulting import model_field, model_of
from isvc_operator.api.names import MODELS_MOUNT
from isvc_operator.manifests import Container
from isvc_operator.resolve.containers import is_grpc
from isvc_operator.resolve.image import has_fixed_image, has_own_image
from isvc_operator.resolve.runtime import TRITON, ChosenRuntime, server_type_of
from isvc_operator.resolve.service import Resolved


def unserved_parts(resolved: Resolved) -> Iterator[str]:
    """Yield settings of storage and autoscalers, a version that the image lacks, a port without a server, no model."""
    plans = (component.storage for component in resolved.components)
    yield from dict.fromkeys(text for plan in plans if plan for text in plan.ignored)
    for component in resolved.components:
        yield from component.scaling.ignored
    model, chosen = model_of(resolved.service.spec.predictor), resolved.chosen
    if model is None or chosen is None:
        return
    field, server = model_field(resolved.service.spec.predictor), resolved.predictor.server
    yield from _unused_version(model, chosen, server, field)
    yield from _other_grpc_ports(model, chosen, field)
    if resolved.predictor.storage is None and not has_own_image(model) and _expects_a_model(server, chosen):
        yield (
            f"{field}.storageUri (missing: the server of runtime {chosen.runtime.metadata.name} reads {MODELS_MOUNT}, "
            "where nothing puts a model; write it, or an image that contains the model)"
        )


def _unused_version(model: ModelSpec, chosen: ChosenRuntime, server: Container, field: str) -> Iterator[str]:
    image, version = str(server.get("image", "")), model.runtime_version
    if not version or image.endswith(f":{version}"):
        return
    why = "has only one version" if has_fixed_image(model, chosen) else "is pinned by its digest"
    yield f"{field}.runtimeVersion: {version} ({image} {why}; write another image as {field}.image)"


def _other_grpc_ports(model: ModelSpec, chosen: ChosenRuntime, field: str) -> Iterator[str]:
    """Yield the model's ports for gRPC at which a server that lists its ports, one for gRPC among them, has none."""
    listed = [port for item in chosen.runtime.spec.containers for port in item.get("ports") or ()]
    numbers = [port.get("containerPort") for port in listed if is_grpc(port.get("name") or "")]
    for port in model.as_dict().get("ports", ()):
        if numbers and is_grpc(port.get("name", "")) and port["containerPort"] not in numbers:
            yield (
                f"{field}.ports: {port['name']} {port['containerPort']} (the server of runtime "
                f"{chosen.runtime.metadata.name} has gRPC at port {numbers[0]}; protocolVersion: grpc-v2 makes port 80 "
                "of the Service lead there)"
            )


def _expects_a_model(server: Container, chosen: ChosenRuntime) -> bool:
    """Whether the command line names the folder of models, which no volume of the runtime or the user is mounted at."""
    mounts = [item.get("mountPath", "") for item in server.get("volumeMounts", ())]
    named = any(MODELS_MOUNT in str(word) for word in (*server.get("command", ()), *server.get("args", ())))
    # Triton is told to start without models.
    return (
        named and server_type_of(chosen.runtime) != TRITON and not any(path.startswith(MODELS_MOUNT) for path in mounts)
    )
