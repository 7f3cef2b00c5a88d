"""The predictor: the runtime's pod with the user's settings merged over it, or the user's own containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isvc_operator.api.components import ModelSpec, PredictorSpec
from isvc_operator.api.core_fields import ContainerFields, PodSpecFields
from isvc_operator.api.core_shapes import without_nulls
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import (
    ANNOTATION_FIXED_IMAGE,
    ANNOTATION_MODEL_FORMAT,
    CONTAINER_SERVER,
    CONTAINER_TRANSFORMER,
    PREDICTOR,
    predictor_name,
)
from isvc_operator.api.serving_runtime import ServingRuntimeSpec
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import (
    Component,
    annotations_for,
    fields_of,
    pod_of,
    strategy_of,
    with_pod_defaults,
    with_service_name,
)
from isvc_operator.resolve.containers import (
    is_grpc,
    merge_container,
    merge_containers,
    merge_items,
    merge_maps,
)
from isvc_operator.resolve.own_containers import completed, server_first
from isvc_operator.resolve.placeholders import Values, fill_all, fill_container, values_of
from isvc_operator.resolve.runtime import ChosenRuntime
from isvc_operator.resolve.server_types import (
    ServerDefaults,
    defaults_of,
    image_for,
    server_type_of,
    with_defaults,
)
from isvc_operator.resolve.settings import settings_of
from isvc_operator.resolve.storage.plan import StorageContext, plan_storage
from isvc_operator.resolve.storage.sources import stored_uri, with_stored_path
from isvc_operator.resolve.termination import (
    reads_drain_seconds,
    with_drain_seconds,
    with_pre_stop,
    within_grace_period,
)

# Pod fields that a runtime may set (docs/kserve.md), in addition to its containers and the lists below. The user's win.
_RUNTIME_POD_FIELDS = ("nodeSelector", "affinity", "tolerations", "schedulerName")
# Lists of the pod whose items have names; those of the runtime and of the user are merged.
_NAMED_ITEMS = ("volumes", "imagePullSecrets", "resourceClaims")
_PROTOCOLS = ("v1", "v2")


def resolve_with_runtime(
    service: InferenceService,
    model: ModelSpec,
    chosen: ChosenRuntime,
    *,
    config: OperatorConfig,
    storage: StorageContext,
) -> Component:
    """Return the predictor of a model: the runtime's pod with the service's settings."""
    predictor, runtime = service.spec.predictor, chosen.runtime.spec
    server_type = server_type_of(chosen.runtime)
    annotations = annotations_for(service.metadata, predictor, config, runtime=runtime.annotations)
    stored = plan_storage(PREDICTOR, annotations, config=config, context=storage, server_type=server_type)
    defaults = defaults_of(
        server_type,
        service.metadata,
        model_format=model.model_format.name,
        protocol=chosen.protocol,
        stored=stored is not None,
    )
    labels = {**service.metadata.labels, **defaults.labels}
    values = _values(service, labels, model)
    return Component(
        kind=PREDICTOR,
        name=predictor_name(service.metadata.name, predictor.name),
        labels={**(runtime.labels or {}), **labels, **(predictor.labels or {})},
        annotations=annotations,
        server=_server(service, model, chosen, defaults, values),
        pod=_pod(service, runtime, config, values),
        storage=stored,
        strategy=strategy_of(predictor),
    )


def resolve_own(service: InferenceService, config: OperatorConfig, storage: StorageContext) -> Component:
    """Return the predictor of the user's own containers, which get no arguments from the operator."""
    predictor, metadata = service.spec.predictor, service.metadata
    pod = pod_of(predictor)
    server, *others = server_first(pod.get("containers", ()), "spec.predictor")
    server = {**server, "env": merge_items(_settings(predictor), server.get("env", ()), "name")}
    annotations = annotations_for(metadata, predictor, config)
    return Component(
        kind=PREDICTOR,
        name=predictor_name(metadata.name, predictor.name),
        labels={**metadata.labels, **(predictor.labels or {})},
        annotations=annotations,
        server=_own(with_stored_path(server), service, pod, config),
        pod=with_pod_defaults({**pod, "containers": _beside(others, service, pod, config)}, config),
        storage=plan_storage(PREDICTOR, annotations, config=config, context=storage),
        strategy=strategy_of(predictor),
    )


def protocol_of(predictor: Component) -> str:
    """Return the protocol of the user's own containers, from KServe's variable ``PROTOCOL``."""
    env = predictor.server.get("env", ())
    protocol = next((str(item.get("value", "")) for item in env if item["name"] == "PROTOCOL"), _PROTOCOLS[0])
    if protocol not in _PROTOCOLS:
        raise InvalidSpec(f"variable PROTOCOL of spec.predictor is {protocol!r}; write one of {', '.join(_PROTOCOLS)}")
    return protocol


def _values(service: InferenceService, labels: Mapping[str, str], model: ModelSpec) -> Values:
    """Return the values of placeholders. KServe's webhook adds the annotation; some runtimes read it."""
    annotations = {ANNOTATION_MODEL_FORMAT: model.model_format.name, **service.metadata.annotations}
    return values_of(service.metadata.model_copy(update={"labels": labels, "annotations": annotations}))


def _server(
    service: InferenceService, model: ModelSpec, chosen: ChosenRuntime, defaults: ServerDefaults, values: Values
) -> dict[str, Any]:
    predictor = service.spec.predictor
    pod = pod_of(predictor)
    base = with_pre_stop(_server_of(chosen), pod)
    if reads_drain_seconds(base):
        base = with_drain_seconds(base, pod, over=True)
    own = _users_container(predictor, model)
    merged = with_defaults(merge_container(base, own), own, defaults)
    container = fill_container(with_service_name(merged, service.metadata), values)
    if "image" in container and not has_fixed_image(model, chosen):
        container["image"] = image_for(container, server_type_of(chosen.runtime), model.runtime_version)
    if chosen.protocol.startswith("grpc") and "ports" in container:
        container["ports"] = sorted(container["ports"], key=lambda port: not is_grpc(port.get("name", "")))
    return container


def has_fixed_image(model: ModelSpec, chosen: ChosenRuntime) -> bool:
    """Whether the server's image exists with one tag only: neither a version nor a GPU changes it."""
    fixed = chosen.runtime.metadata.annotations.get(ANNOTATION_FIXED_IMAGE, "").lower() == "true"
    return fixed and not has_own_image(model)


def has_own_image(model: ModelSpec) -> bool:
    """Whether the service replaces the image of its runtime."""
    return bool(model.as_dict().get("image"))


def _users_container(predictor: PredictorSpec, model: ModelSpec) -> dict[str, Any]:
    """Return the user's container fields, with the predictor's settings as variables unless the user has set them."""
    container = fields_of(model, ContainerFields)
    if settings := _settings(predictor):
        container["env"] = merge_items(settings, container.get("env", ()), "name")
    return container


def _settings(predictor: PredictorSpec) -> list[dict[str, str]]:
    return [{"name": item.variable, "value": str(item.value)} for item in settings_of(predictor) if item.usable]


def _server_of(chosen: ChosenRuntime) -> Container:
    container: Container
    for container in without_nulls(chosen.runtime.spec.containers):
        if container.get("name") == CONTAINER_SERVER:
            return container
    name = chosen.runtime.metadata.name
    raise InvalidSpec(
        f"runtime {name!r} has no container named {CONTAINER_SERVER!r}; give its server that name",
        "RuntimeNotRecognized",
    )


def _pod(
    service: InferenceService, runtime: ServingRuntimeSpec, config: OperatorConfig, values: Values
) -> dict[str, Any]:
    shared, own = fields_of(runtime, PodSpecFields), pod_of(service.spec.predictor)
    pod = merge_maps({name: shared[name] for name in _RUNTIME_POD_FIELDS if name in shared}, own)
    for name in _NAMED_ITEMS:
        if items := merge_items(shared.get(name, ()), own.get(name, ()), "name"):
            pod[name] = items
    sidecars = [
        within_grace_period(item, own) for item in shared.get("containers", ()) if item.get("name") != CONTAINER_SERVER
    ]
    others = merge_containers(sidecars, own.get("containers", ()))
    pod["containers"] = [_filled(item, values) for item in _beside(others, service, pod, config)]
    if "initContainers" in pod:
        pod["initContainers"] = fill_all(pod["initContainers"], values)
    return with_pod_defaults(pod, config)


def _filled(container: Container, values: Values) -> dict[str, Any]:
    """Fill a container beside the server. As with KServe, only a transformer's other templates are an error."""
    if container.get("name") == CONTAINER_TRANSFORMER:
        return fill_container(container, values)
    filled: dict[str, Any] = fill_all(container, values)
    return filled


def _beside(
    containers: Sequence[Container], service: InferenceService, pod: Mapping[str, Any], config: OperatorConfig
) -> list[dict[str, Any]]:
    """Complete the containers beside the server. A transformer gets no flags: the server is on its loopback."""
    for container in containers:
        if container.get("name") == CONTAINER_TRANSFORMER and stored_uri(container):
            raise InvalidSpec(
                f"variable STORAGE_URI is set for {CONTAINER_TRANSFORMER}, which shares the predictor's pod and its "
                "models; remove it, or set storageUri of the predictor"
            )
    return [_own(item, service, pod, config) for item in containers]


def _own(
    container: Container, service: InferenceService, pod: Mapping[str, Any], config: OperatorConfig
) -> dict[str, Any]:
    named = with_service_name(container, service.metadata)
    return completed(named, pod, config.inference_service.resource)
