"""A resolved component, which becomes a Deployment and a Service, and what the steps that make it know beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isvc_operator.api.components import ModelSpec
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.config import OperatorConfig
from isvc_operator.manifests import Container
from isvc_operator.resolve.requested import AutoscalerClass, RequestedComponent, StorageRequests
from isvc_operator.resolve.runtime import ChosenRuntime
from isvc_operator.resolve.storage.plan import ObjectReference, Objects, StoragePlan

SERVICE_PORT = 80  # of every component; it leads to the first port of the server
TLS_PORT = 443  # in its place, if the pods serve TLS


@dataclass(frozen=True)
class ResourceTarget:
    """How much of ``cpu`` or ``memory`` a pod should use: a percentage of its requests, or a quantity."""

    resource: str
    utilization: int | None = None
    average: str | None = None


@dataclass(frozen=True)
class Query:
    """A query for KEDA: the type and the metadata of a trigger. ``authentication`` names a TriggerAuthentication."""

    type: str
    metadata: tuple[tuple[str, str], ...]
    authentication: str | None = None


Metric = ResourceTarget | Query


@dataclass(frozen=True)
class Autoscaler:
    """An autoscaler to make; ``by`` is HPA or KEDA. ``behavior`` is that of a HorizontalPodAutoscaler, or empty."""

    by: AutoscalerClass
    minimum: int
    maximum: int
    metrics: tuple[Metric, ...]
    behavior: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scaling:
    """``replicas`` is the number that is rendered; None leaves it to the autoscaler, or to ``kubectl scale``.

    ``ignored`` names the fields that have no effect, each with what happens instead.
    """

    replicas: int | None = None
    autoscaler: Autoscaler | None = None
    ignored: tuple[str, ...] = ()
    lacks_keda: bool = False


@dataclass(frozen=True)
class ServicePorts:
    """The ports of a component's Service, each with the port of the container that it leads to, the main one first.

    ``main`` is its number, ``rest`` and ``grpc`` are the first ones for each protocol. ``in_address`` and
    ``grpc_in_address`` follow the name of a headless Service in an address, such as ``:8080``, because it maps no
    ports. They are empty for others.
    """

    every: Sequence[tuple[int, Mapping[str, Any]]] = ()
    main: int = SERVICE_PORT
    rest: int | None = None
    grpc: int | None = None
    in_address: str = ""
    grpc_in_address: str = ""


@dataclass(frozen=True)
class Component:
    """What a component's Deployment and Service are made of.

    ``server`` is the container ``kserve-container``; ``pod`` is the rest of the pod's spec, including the other
    containers. Labels and annotations are the user's and the runtime's, without the operator's own. ``timeout`` is
    that of a request, in seconds, if the user has set one. ``tls``: its pods serve nothing but TLS.
    """

    kind: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    server: Container = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    storage: StoragePlan | None = None
    strategy: Mapping[str, Any] | None = None
    timeout: int | None = None
    scaling: Scaling = field(default_factory=Scaling)
    tls: bool = False
    ports: ServicePorts = field(default_factory=ServicePorts)


@dataclass(frozen=True)
class ModelOnRuntime:
    """The model of a predictor, and the runtime that serves it."""

    model: ModelSpec
    chosen: ChosenRuntime


@dataclass(frozen=True)
class StorageContext:
    """What the plans of a service depend on: its requests, the cluster's storage containers, and the objects read."""

    requests: StorageRequests
    containers: tuple[ClusterStorageContainer, ...] = ()
    objects: Objects = field(default_factory=dict)


@dataclass(frozen=True)
class Predictor:
    """The predictor for the components that call it, and the protocol that it speaks."""

    component: Component
    protocol: str


@dataclass(frozen=True)
class Context:
    """A component as it is requested, and what it depends on.

    ``served`` is None for the user's own containers, ``predictor`` for the predictor itself. ``secret`` is that of TLS,
    if the pods are to serve it; ``keda``: the cluster has KEDA.
    """

    service: InferenceService
    requested: RequestedComponent
    config: OperatorConfig
    storage: StorageContext
    served: ModelOnRuntime | None = None
    predictor: Predictor | None = None
    secret: ObjectReference | None = None
    keda: bool = True


Step = Callable[[Component, Context], Component]
"""Takes a component and returns it with one thing more decided; raises InvalidSpec."""
