"""The predictor: the runtime's pod with the user's settings merged over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isvc_operator.api.base import ApiModel
from isvc_operator.api.components import ModelSpec, PredictorSpec
from isvc_operator.api.core_fields import ContainerFields, PodSpecFields
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import (
    ANNOTATION_AUTOSCALER,
    ANNOTATION_READONLY,
    ANNOTATION_SERVER_TYPE,
    CONTAINER_SERVER,
    LABEL_SERVICE_ENVELOPE,
    predictor_name,
)
from isvc_operator.api.serving_runtime import ServingRuntimeSpec
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.containers import is_grpc, merge_container, merge_items, merge_maps, with_tag
from isvc_operator.resolve.placeholders import fill_all, values_of
from isvc_operator.resolve.runtime import ChosenRuntime
from isvc_operator.resolve.settings import settings_of
from isvc_operator.resolve.storage import StorageContext, StoragePlan, plan_storage

# Pod fields that a runtime may set (contract §1.4), beside its containers and the lists below; the user's win.
_RUNTIME_POD_FIELDS = ("nodeSelector", "affinity", "tolerations", "schedulerName")
# Lists of the pod whose items are told apart by their names: those of the runtime and of the user are all there.
_NAMED_ITEMS = ("volumes", "imagePullSecrets", "resourceClaims")
_NEVER_COPIED = (
    "autoscaling.knative.dev/min-scale",
    "autoscaling.knative.dev/max-scale",
    "internal.serving.kserve.io/storage-initializer-sourceuri",
    "kubectl.kubernetes.io/last-applied-configuration",
    "modelFormat",
)
_ENVELOPES = {"v1": "kserve", "v2": "kservev2", "grpc-v2": "kservev2"}


@dataclass(frozen=True)
class Predictor:
    """What the predictor's Deployment and Service are made of.

    ``server`` is the container named ``kserve-container``; ``pod`` is the rest of the pod's spec, with the user's
    other containers. Labels and annotations are the user's and the runtime's, without the operator's own.
    """

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    server: Mapping[str, Any]
    pod: Mapping[str, Any]
    storage: StoragePlan | None
    models_writable: bool
    replicas: int | None
    strategy: Mapping[str, Any] | None


def resolve_predictor(
    service: InferenceService,
    model: ModelSpec,
    chosen: ChosenRuntime,
    config: OperatorConfig,
    context: StorageContext,
) -> Predictor:
    """Merge runtime, service and configuration into one predictor."""
    predictor, runtime = service.spec.predictor, chosen.runtime.spec
    server_type = chosen.runtime.metadata.annotations.get(ANNOTATION_SERVER_TYPE)
    annotations = _annotations(service, runtime, config)
    labels = _service_labels(service, chosen, server_type)
    return Predictor(
        name=predictor_name(service.metadata.name, predictor.name),
        labels={**(runtime.labels or {}), **labels, **(predictor.labels or {})},
        annotations=annotations,
        server=_server(service, labels, model, chosen, server_type),
        pod=_pod(predictor, runtime, config),
        storage=plan_storage(service, model, server_type, annotations, config, context),
        models_writable=annotations.get(ANNOTATION_READONLY, "true").lower() == "false",
        replicas=_replicas(predictor, annotations),
        strategy=predictor.deployment_strategy.as_dict() if predictor.deployment_strategy else None,
    )


def _service_labels(service: InferenceService, chosen: ChosenRuntime, server_type: str | None) -> dict[str, str]:
    """The service's labels; TorchServe's envelope is one of them, which KServe's runtime reads by a placeholder."""
    labels = dict(service.metadata.labels)
    if server_type == "torchserve":
        labels.setdefault(LABEL_SERVICE_ENVELOPE, _ENVELOPES.get(chosen.protocol, "kserve"))
    return labels


def _annotations(service: InferenceService, runtime: ServingRuntimeSpec, config: OperatorConfig) -> dict[str, str]:
    disallowed = {*_NEVER_COPIED, *config.inference_service.service_annotation_disallowed_list}
    merged = {
        **(runtime.annotations or {}),
        **service.metadata.annotations,
        **(service.spec.predictor.annotations or {}),
    }
    return {name: value for name, value in merged.items() if name not in disallowed}


def _server(
    service: InferenceService,
    labels: Mapping[str, str],
    model: ModelSpec,
    chosen: ChosenRuntime,
    server_type: str | None,
) -> dict[str, Any]:
    container = merge_container(_server_of(chosen), _users_container(service.spec.predictor, model))
    if model.runtime_version and "image" in container:
        container["image"] = with_tag(container["image"], model.runtime_version)
    if chosen.protocol.startswith("grpc") and "ports" in container:
        container["ports"] = sorted(container["ports"], key=lambda port: not is_grpc(port.get("name", "")))
    ours = [{"name": "INFERENCE_SERVICE_NAME", "value": service.metadata.name}]
    if server_type == "torchserve":
        ours.append({"name": "PROTOCOL_VERSION", "value": chosen.protocol})
    container["env"] = merge_items(ours, container.get("env", ()), "name")
    values = values_of(service.metadata.model_copy(update={"labels": labels}))
    filled: dict[str, Any] = fill_all(container, values)
    return filled


def _users_container(predictor: PredictorSpec, model: ModelSpec) -> dict[str, Any]:
    """What the user wrote about the container, and the predictor's settings as its variables; those written win."""
    container = _fields(model, ContainerFields)
    settings = [{"name": item.variable, "value": str(item.value)} for item in settings_of(predictor) if item.usable]
    if settings:
        container["env"] = merge_items(settings, container.get("env", ()), "name")
    return container


def _server_of(chosen: ChosenRuntime) -> Mapping[str, Any]:
    for container in chosen.runtime.spec.containers:
        if container.get("name") == CONTAINER_SERVER:
            return container
    name = chosen.runtime.metadata.name
    raise InvalidSpec(
        f"runtime {name!r} has no container named {CONTAINER_SERVER!r}; name its server container so",
        "RuntimeNotRecognized",
    )


def _pod(predictor: PredictorSpec, runtime: ServingRuntimeSpec, config: OperatorConfig) -> dict[str, Any]:
    shared, own = _fields(runtime, PodSpecFields), _fields(predictor, PodSpecFields)
    pod = merge_maps({name: shared[name] for name in _RUNTIME_POD_FIELDS if name in shared}, own)
    for name in _NAMED_ITEMS:
        if items := merge_items(shared.get(name, ()), own.get(name, ()), "name"):
            pod[name] = items
    sidecars = [item for item in shared.get("containers", ()) if item.get("name") != CONTAINER_SERVER]
    pod["containers"] = merge_items(sidecars, own.get("containers", ()), "name")
    pod.setdefault("automountServiceAccountToken", config.security.auto_mount_service_account_token)
    # A variable for every Service of the namespace would reach the server: one named "http" sets HTTP_PORT.
    pod.setdefault("enableServiceLinks", False)
    return pod


def _replicas(predictor: PredictorSpec, annotations: Mapping[str, str]) -> int | None:
    """The number that the user fixed; None leaves it to whoever scales."""
    if predictor.min_replicas is None or annotations.get(ANNOTATION_AUTOSCALER) == "external":
        return None
    return max(1, predictor.min_replicas)


def _fields(source: ApiModel, kind: type[ApiModel]) -> dict[str, Any]:
    """Those fields of ``source`` that are of ``kind`` (a core/v1 type), by their wire names."""
    names = {field.alias for field in kind.model_fields.values()}
    return {name: value for name, value in source.as_dict().items() if name in names}
