"""A component of a service, which becomes a Deployment and a Service; and what is the same for all three."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isvc_operator.api.base import ApiModel, ObjectMeta, field_names
from isvc_operator.api.components import ComponentExtensionSpec
from isvc_operator.api.core_fields import ContainerFields, PodSpecFields
from isvc_operator.api.core_shapes import without_nulls
from isvc_operator.api.names import (
    ANNOTATION_AUTOSCALER,
    ANNOTATION_READONLY,
    CONTAINER_TRANSFORMER,
)
from isvc_operator.config import OperatorConfig
from isvc_operator.resolve.containers import is_grpc, merge_items
from isvc_operator.resolve.ingress_annotations import may_reach_others
from isvc_operator.resolve.storage import StoragePlan

DEFAULT_PORT = 8080
_SCALED_BY_OTHERS = ("external", "keda")
_NEVER_COPIED = (
    "autoscaling.knative.dev/min-scale",
    "autoscaling.knative.dev/max-scale",
    "internal.serving.kserve.io/storage-initializer-sourceuri",
    "kubectl.kubernetes.io/last-applied-configuration",
    "modelFormat",
)


@dataclass(frozen=True)
class Component:
    """What a component's Deployment and Service are made of.

    ``server`` is the container named ``kserve-container``; ``pod`` is the rest of the pod's spec, with the other
    containers. Labels and annotations are the user's and the runtime's, without the operator's own.
    """

    kind: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    server: Mapping[str, Any]
    pod: Mapping[str, Any]
    storage: StoragePlan | None
    replicas: int | None
    strategy: Mapping[str, Any] | None

    @property
    def front(self) -> Mapping[str, Any]:
        """The container that requests go to: a transformer in the predictor's pod stands before the server."""
        containers = self.pod.get("containers", ())
        return next((item for item in containers if item.get("name") == CONTAINER_TRANSFORMER), self.server)

    @property
    def models_writable(self) -> bool:
        """Whether the server may write where its model is."""
        return self.annotations.get(ANNOTATION_READONLY, "true").lower() == "false"


def first_port(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """The port that the container answers on; KServe's 8080 where it names none."""
    ports = container.get("ports") or ()
    return ports[0] if ports else {"containerPort": DEFAULT_PORT, "protocol": "TCP"}


def http_port(container: Mapping[str, Any]) -> int:
    """The first port that does not speak gRPC."""
    ports = container.get("ports") or ()
    numbers = (int(port["containerPort"]) for port in ports if not is_grpc(port.get("name", "")))
    return next(numbers, DEFAULT_PORT)


def port_in_address(component: Component, config: OperatorConfig, *, grpc: bool = False) -> str:
    """What follows the host in the component's address: a headless Service maps no ports, so the container's own."""
    if not config.service.service_cluster_ip_none:
        return ""
    port = first_port(component.front)["containerPort"] if grpc else http_port(component.front)
    return f":{port}"


def annotations_for(
    service: ObjectMeta,
    component: ComponentExtensionSpec,
    config: OperatorConfig,
    runtime: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Annotations of the runtime, the service and the component, the last one's counting most."""
    disallowed = {*_NEVER_COPIED, *config.inference_service.service_annotation_disallowed_list}
    merged = {**(runtime or {}), **service.annotations, **(component.annotations or {})}
    return {
        name: value
        for name, value in merged.items()
        if name not in disallowed and not may_reach_others(name, config.ingress)
    }


def with_pod_defaults(pod: Mapping[str, Any], config: OperatorConfig) -> dict[str, Any]:
    """The pod's fields, with ours where nothing is said."""
    return {
        **pod,
        "automountServiceAccountToken": pod.get(
            "automountServiceAccountToken", config.security.auto_mount_service_account_token
        ),
        # A variable for every Service of the namespace would reach the server: one named "http" sets HTTP_PORT.
        "enableServiceLinks": pod.get("enableServiceLinks", False),
    }


def with_service_name(container: Mapping[str, Any], service: ObjectMeta) -> dict[str, Any]:
    """The container with the variable by which KServe's containers know whose they are."""
    return with_variable(container, "INFERENCE_SERVICE_NAME", service.name)


def with_variable(container: Mapping[str, Any], name: str, value: str) -> dict[str, Any]:
    """The container with a variable of ours, unless the user gave it."""
    return {**container, "env": merge_items([{"name": name, "value": value}], container.get("env", ()), "name")}


def replicas_of(component: ComponentExtensionSpec, annotations: Mapping[str, str]) -> int | None:
    """The number that the user fixed; None leaves it to whoever scales."""
    if component.min_replicas is None or annotations.get(ANNOTATION_AUTOSCALER) in _SCALED_BY_OTHERS:
        return None
    return max(1, component.min_replicas)


def strategy_of(component: ComponentExtensionSpec) -> dict[str, Any] | None:
    """How the user wants the pods to be replaced."""
    return component.deployment_strategy.as_dict() if component.deployment_strategy else None


def pod_fields(source: ApiModel) -> dict[str, Any]:
    """Those fields of ``source`` that are a pod's, by their names in YAML.

    Its containers, too, have only those of a container: the API server refuses a Deployment with any other.
    """
    pod = fields_of(source, PodSpecFields)
    for name in ("containers", "initContainers"):
        if name in pod:
            pod[name] = [_container_fields(item) for item in pod[name]]
    return pod


def _container_fields(container: Mapping[str, Any]) -> dict[str, Any]:
    known = field_names(ContainerFields)
    return {name: value for name, value in container.items() if name in known}


def fields_of(source: ApiModel, kind: type[ApiModel]) -> dict[str, Any]:
    """Those fields of ``source`` that are of ``kind`` (a core/v1 type), by their names in YAML."""
    names = field_names(kind)
    return {name: without_nulls(value) for name, value in source.as_dict().items() if name in names}
