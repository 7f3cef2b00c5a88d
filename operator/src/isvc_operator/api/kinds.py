"""Every kind of object that the operator watches, reads or writes, and what it does with it.

Watches, request paths, adoption, pruning and the check of the shipped ClusterRole are derived from ``KINDS``. A new
child kind is a row here, a builder in ``render.children``, and its permissions in ``manifests/base/rbac.yaml``;
``tests/contract/test_permissions.py`` names the permissions that are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from isvc_operator.api import inference_service, serving_runtime, storage_container
from isvc_operator.api.names import EXPLAINER, GROUP, PREDICTOR, TRANSFORMER

GATEWAY_API: Final = "gateway.networking.k8s.io"


class Role(Enum):
    """What the operator does with the objects of a kind."""

    SERVICE = auto()  # watched; status and finalizers are patched
    INPUT = auto()  # watched: what services are made from
    CHILD = auto()  # watched by the service's label; applied and pruned
    POD = auto()  # watched by the service's label; made by the Deployment's controller
    REFERENCE = auto()  # read by name, never listed: what a service's storage refers to
    DISCOVERY = auto()  # watched by its metadata: which kinds and namespaces there are to watch
    EVENT = auto()  # recorded, and listed to find out why a pod does not start


@dataclass(frozen=True)
class ResourceKind:
    """A row of the table.

    ``unlabelled``: the components ("" for the service itself) for which KServe's controller creates one without the
    service's label, which the watch selects.
    ``optional``: whether its CRD may be missing; the watch starts when it is installed. ``routes``: whether its objects
    route requests from outside the cluster to Services. ``others_watched``: objects of others matter, too, so that the
    watch selects none. ``made_by_kserve``: of a child, whether KServe's controller creates it as well; what it does not
    create, ``isvc migrate back`` deletes.
    """

    name: str
    group: str
    version: str
    plural: str
    role: Role
    namespaced: bool = True
    unlabelled: tuple[str, ...] = ()
    optional: bool = False
    routes: bool = False
    others_watched: bool = False
    made_by_kserve: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def api_path(self) -> str:
        """The path of its API version on the API server."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    @property
    def watched(self) -> bool:
        """Whether the operator watches its objects, to reconcile services."""
        return self.role in (Role.SERVICE, Role.INPUT, Role.CHILD, Role.POD)

    @property
    def selected_by_label(self) -> bool:
        """Whether only objects with a service's label are watched."""
        return self.role in (Role.CHILD, Role.POD) and not self.others_watched


HPA: Final = "HorizontalPodAutoscaler"
SCALED_OBJECT: Final = "ScaledObject"
DISRUPTION_BUDGET: Final = "PodDisruptionBudget"
NETWORK_POLICY: Final = "NetworkPolicy"
AUTOSCALERS: Final = (HPA, SCALED_OBJECT)
_RUNTIMES: Final = serving_runtime.VERSION
_CONTAINERS: Final = storage_container.VERSION
KINDS: Final = (
    ResourceKind(inference_service.KIND, GROUP, inference_service.VERSION, inference_service.PLURAL, Role.SERVICE),
    ResourceKind(serving_runtime.KIND, GROUP, _RUNTIMES, serving_runtime.PLURAL, Role.INPUT),
    ResourceKind(
        serving_runtime.CLUSTER_KIND, GROUP, _RUNTIMES, serving_runtime.CLUSTER_PLURAL, Role.INPUT, namespaced=False
    ),
    ResourceKind(storage_container.KIND, GROUP, _CONTAINERS, storage_container.PLURAL, Role.INPUT, namespaced=False),
    ResourceKind("Deployment", "apps", "v1", "deployments", Role.CHILD),
    ResourceKind("Service", "", "v1", "services", Role.CHILD),
    ResourceKind("Ingress", "networking.k8s.io", "v1", "ingresses", Role.CHILD, unlabelled=("",), routes=True),
    ResourceKind(
        "HTTPRoute",
        GATEWAY_API,
        "v1",
        "httproutes",
        Role.CHILD,
        unlabelled=("", PREDICTOR, TRANSFORMER, EXPLAINER),
        optional=True,
        routes=True,
    ),
    ResourceKind(
        "GRPCRoute",
        GATEWAY_API,
        "v1",
        "grpcroutes",
        Role.CHILD,
        optional=True,
        routes=True,
        made_by_kserve=False,
    ),
    ResourceKind(HPA, "autoscaling", "v2", "horizontalpodautoscalers", Role.CHILD),
    ResourceKind(SCALED_OBJECT, "keda.sh", "v1alpha1", "scaledobjects", Role.CHILD, optional=True),
    ResourceKind(
        DISRUPTION_BUDGET,
        "policy",
        "v1",
        "poddisruptionbudgets",
        Role.CHILD,
        others_watched=True,
        made_by_kserve=False,
    ),
    ResourceKind(NETWORK_POLICY, "networking.k8s.io", "v1", "networkpolicies", Role.CHILD, made_by_kserve=False),
    ResourceKind("Pod", "", "v1", "pods", Role.POD),
    ResourceKind("ServiceAccount", "", "v1", "serviceaccounts", Role.REFERENCE),
    ResourceKind("Secret", "", "v1", "secrets", Role.REFERENCE),
    ResourceKind("ConfigMap", "", "v1", "configmaps", Role.REFERENCE),
    ResourceKind("Event", "", "v1", "events", Role.EVENT),
    ResourceKind(
        "CustomResourceDefinition",
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        Role.DISCOVERY,
        namespaced=False,
    ),
    ResourceKind("Namespace", "", "v1", "namespaces", Role.DISCOVERY, namespaced=False),
)
_BY_NAME: Final = {kind.name: kind for kind in KINDS}


def kind_named(name: str) -> ResourceKind:
    """Return the row of a kind; raises KeyError for one that is not in the table."""
    return _BY_NAME[name]


def with_role(*roles: Role) -> tuple[ResourceKind, ...]:
    """Return the kinds that have one of these roles, in the table's order."""
    return tuple(kind for kind in KINDS if kind.role in roles)


def is_a(name: str, role: Role) -> bool:
    """Whether the kind is in the table with this role."""
    return name in _BY_NAME and _BY_NAME[name].role is role


def is_route(name: str) -> bool:
    """Whether objects of the kind route requests from outside the cluster to Services."""
    return name in _BY_NAME and _BY_NAME[name].routes
