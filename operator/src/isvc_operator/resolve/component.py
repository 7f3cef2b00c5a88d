"""A resolved component, which becomes a Deployment and a Service, and what all three kinds have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isvc_operator.api.base import ApiModel, ObjectMeta, field_names
from isvc_operator.api.components import ComponentExtensionSpec
from isvc_operator.api.core_fields import ContainerFields, PodSpecFields
from isvc_operator.api.core_shapes import without_nulls
from isvc_operator.api.names import (
    ANNOTATION_NETWORK_POLICY,
    ANNOTATION_READONLY,
    ANNOTATION_UPGRADE_POLICY,
    CONTAINER_TRANSFORMER,
)
from isvc_operator.config import OperatorConfig
from isvc_operator.manifests import Container
from isvc_operator.resolve.containers import is_grpc, merge_items
from isvc_operator.resolve.ingress_annotations import may_reach_others
from isvc_operator.resolve.scaling import Scaling
from isvc_operator.resolve.storage.plan import StoragePlan
from isvc_operator.resolve.termination import with_grace_period

DEFAULT_PORT = 8080
DEFAULT_GRPC_PORT = 8081  # of our runtimes and of KServe's SDK, where nothing else is asked for
SERVICE_PORT = 80  # of every component; it leads to the first port of the server
TLS_PORT = 443  # in its place, if the pods serve TLS
_WORDS = frozenset({"args", "command"})  # of which a null item is an empty one
_NEVER_COPIED = (
    "autoscaling.knative.dev/min-scale",
    "autoscaling.knative.dev/max-scale",
    "internal.serving.kserve.io/storage-initializer-sourceuri",
    "kubectl.kubernetes.io/last-applied-configuration",
    "modelFormat",
    ANNOTATION_NETWORK_POLICY,
    ANNOTATION_UPGRADE_POLICY,
)


@dataclass(frozen=True)
class Component:
    """What a component's Deployment and Service are made of.

    ``server`` is the container ``kserve-container``; ``pod`` is the rest of the pod's spec, including the other
    containers. Labels and annotations are the user's and the runtime's, without the operator's own. ``tls``: its pods
    serve nothing but TLS.
    """

    kind: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    server: Container
    pod: Mapping[str, Any]
    storage: StoragePlan | None
    strategy: Mapping[str, Any] | None
    scaling: Scaling = field(default_factory=Scaling)
    tls: bool = False

    @property
    def front(self) -> Container:
        """The container that gets the requests: a transformer in the predictor's pod, or else the server."""
        containers = self.pod.get("containers", ())
        return next((item for item in containers if item.get("name") == CONTAINER_TRANSFORMER), self.server)

    @property
    def main_port(self) -> int:
        """The port of its Service that leads to the first port of the pods."""
        return TLS_PORT if self.tls else SERVICE_PORT

    @property
    def models_writable(self) -> bool:
        """Whether the server may write to the folder of its model."""
        return self.annotations.get(ANNOTATION_READONLY, "true").lower() == "false"


def first_port(container: Container) -> Mapping[str, Any]:
    """Return the container's main port; 8080, as with KServe, if it names none."""
    ports = container.get("ports") or ()
    return ports[0] if ports else {"containerPort": DEFAULT_PORT, "protocol": "TCP"}


def service_ports(component: Component) -> list[tuple[int, Mapping[str, Any]]]:
    """Return each port of a component's Service with the port of the container that it leads to (docs/kserve.md)."""
    others = (component.front.get("ports") or ())[1:]
    main = (component.main_port, first_port(component.front))
    return [main, *((int(port["containerPort"]), port) for port in others)]


def service_port(component: Component, *, grpc: bool) -> int | None:
    """Return the first port of the component's Service that is for gRPC, or is not."""
    ports = service_ports(component)
    return next((number for number, port in ports if is_grpc(port.get("name", "")) is grpc), None)


def http_port(container: Container) -> int:
    """Return the first port that is not for gRPC."""
    ports = container.get("ports") or ()
    numbers = (int(port["containerPort"]) for port in ports if not is_grpc(port.get("name", "")))
    return next(numbers, DEFAULT_PORT)


def port_in_address(component: Component, config: OperatorConfig, *, grpc: bool = False) -> str:
    """Return the port in the component's address: the container's for a headless Service, which maps none."""
    if not config.service.service_cluster_ip_none:
        return ""
    port = first_port(component.front)["containerPort"] if grpc else http_port(component.front)
    return f":{port}"


def annotations_for(
    service: ObjectMeta,
    component: ComponentExtensionSpec,
    config: OperatorConfig,
    *,
    runtime: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Merge the annotations of the runtime, the service and the component; the last one wins."""
    disallowed = {*_NEVER_COPIED, *config.inference_service.service_annotation_disallowed_list}
    merged = {**(runtime or {}), **service.annotations, **(component.annotations or {})}
    return {
        name: value
        for name, value in merged.items()
        if name not in disallowed and not may_reach_others(name, config.ingress)
    }


def with_pod_defaults(pod: Mapping[str, Any], config: OperatorConfig) -> dict[str, Any]:
    """Return the pod's fields with defaults for those that are not set."""
    return {
        **pod,
        "automountServiceAccountToken": pod.get(
            "automountServiceAccountToken", config.security.auto_mount_service_account_token
        ),
        # A variable for every Service of the namespace would reach the server: one named "http" sets HTTP_PORT.
        "enableServiceLinks": pod.get("enableServiceLinks", False),
    }


def with_service_name(container: Container, service: ObjectMeta) -> dict[str, Any]:
    """Return the container with KServe's variable for the name of the service."""
    return with_variable(container, "INFERENCE_SERVICE_NAME", service.name)


def with_variable(container: Container, name: str, value: str) -> dict[str, Any]:
    """Return the container with the variable, unless the user has set it."""
    return {**container, "env": merge_items([{"name": name, "value": value}], container.get("env", ()), "name")}


def strategy_of(component: ComponentExtensionSpec) -> dict[str, Any] | None:
    """Return the Deployment's strategy, if the user has set one."""
    return component.deployment_strategy.known_fields() if component.deployment_strategy else None


def pod_of(component: ComponentExtensionSpec) -> dict[str, Any]:
    """Return the component's fields that belong to a PodSpec, by their names in YAML, and its grace period.

    Unknown fields of its containers are left out, too: the API server would refuse the Deployment.
    """
    pod = fields_of(component, PodSpecFields)
    for name in ("containers", "initContainers"):
        if name in pod:
            pod[name] = [_container_fields(item) for item in pod[name]]
    return with_grace_period(pod, component.timeout)


def _container_fields(container: Container) -> dict[str, Any]:
    known = field_names(ContainerFields)
    fields = {name: value for name, value in container.items() if name in known}
    words = {name: ["" if word is None else word for word in fields[name]] for name in _WORDS & fields.keys()}
    return {**fields, **words}


def fields_of(source: ApiModel, kind: type[ApiModel]) -> dict[str, Any]:
    """Return the fields of ``source`` that belong to ``kind`` (a core/v1 type), by their names in YAML."""
    names = field_names(kind)
    return {name: without_nulls(value) for name, value in source.as_dict().items() if name in names}
