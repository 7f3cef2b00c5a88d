"""Builds the manifests of all children of a service. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isvc_operator.api.core_shapes import fraction_as_text, quantity
from isvc_operator.api.kinds import DISRUPTION_BUDGET, HPA, NETWORK_POLICY, SCALED_OBJECT
from isvc_operator.api.names import EXPLAINER, LABEL_COMPONENT, LABEL_SERVICE, TRANSFORMER
from isvc_operator.config import NetworkAccess, NetworkPolicyConfig, OperatorConfig, ServiceConfig
from isvc_operator.render.deployment import build_deployment
from isvc_operator.render.metadata import build_component_child, component_labels, selector
from isvc_operator.render.routes import build_ingresses, build_routes
from isvc_operator.resolve.component import Autoscaler, Component, Metric, Query, ResourceTarget
from isvc_operator.resolve.ports import front_of, is_grpc
from isvc_operator.resolve.requested import AutoscalerClass
from isvc_operator.resolve.service import Resolved

_CONTOUR = "projectcontour.io/upstream-protocol"
_TRAEFIK = "traefik.ingress.kubernetes.io/service.serversscheme"
_NAMESPACE_NAME = "kubernetes.io/metadata.name"  # a label that the API server sets
_METRICS_PORT = "prometheus.io/port"


def build_autoscaler(resolved: Resolved, component: Component) -> dict[str, Any] | None:
    """Return the component's autoscaler, if the operator makes one."""
    autoscaler = component.scaling.autoscaler
    if autoscaler is None:
        return None
    by_keda = autoscaler.by is AutoscalerClass.KEDA
    spec = (_scaled_object if by_keda else _horizontal)(autoscaler, component.name)
    return build_component_child(resolved.service.metadata, component, SCALED_OBJECT if by_keda else HPA, spec)


def _horizontal(autoscaler: Autoscaler, deployment: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment},
        "minReplicas": autoscaler.minimum,
        "maxReplicas": autoscaler.maximum,
        "metrics": [_resource_metric(item) for item in autoscaler.metrics if isinstance(item, ResourceTarget)],
    }
    if autoscaler.behavior:
        spec["behavior"] = autoscaler.behavior
    return spec


def _resource_metric(metric: ResourceTarget) -> dict[str, Any]:
    target: dict[str, Any] = {"type": "Utilization", "averageUtilization": metric.utilization}
    if metric.average is not None:
        target = {"type": "AverageValue", "averageValue": metric.average}
    return {"type": "Resource", "resource": {"name": metric.resource, "target": target}}


def _scaled_object(autoscaler: Autoscaler, deployment: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "scaleTargetRef": {"name": deployment},
        "minReplicaCount": autoscaler.minimum,
        "maxReplicaCount": autoscaler.maximum,
        "triggers": [_trigger(item) for item in autoscaler.metrics],
    }
    if autoscaler.behavior:
        spec["advanced"] = {"horizontalPodAutoscalerConfig": {"behavior": autoscaler.behavior}}
    return spec


def _trigger(metric: Metric) -> dict[str, Any]:
    if isinstance(metric, Query):
        login = {"authenticationRef": {"name": metric.authentication}} if metric.authentication else {}
        return {"type": metric.type, "metadata": dict(metric.metadata), **login}
    if metric.average is not None:
        return {"type": metric.resource, "metricType": "AverageValue", "metadata": {"value": metric.average}}
    return {"type": metric.resource, "metricType": "Utilization", "metadata": {"value": str(metric.utilization)}}


def build_disruption_budget(resolved: Resolved, component: Component, config: OperatorConfig) -> dict[str, Any] | None:
    """Return the component's budget; None for one pod, if the ConfigMap turns it off, or if the pods have another.

    Kubernetes evicts no pod that two budgets select, so that no node could be drained any more.
    """
    service, scaling = resolved.service.metadata, component.scaling
    most = scaling.autoscaler.maximum if scaling.autoscaler else scaling.replicas or 1
    if most < 2 or not config.inference_service.pod_disruption_budget:
        return None
    labels = component_labels(service, component)
    if any(_selects(budget["spec"].get("selector"), labels) for budget in resolved.budgets):
        return None
    spec = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": selector(component.name)},
        # A pod that is not ready serves nobody, and must not keep a node from being drained.
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return build_component_child(service, component, DISRUPTION_BUDGET, spec)


def _selects(selector_: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; one that is empty matches all, one that is missing none."""
    if selector_ is None:
        return False
    wanted = selector_.get("matchLabels") or {}
    return all(labels.get(name) == value for name, value in wanted.items()) and all(
        _matches_expression(expression, labels) for expression in selector_.get("matchExpressions") or ()
    )


def _matches_expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None


def build_network_policy(
    resolved: Resolved, component: Component, config: NetworkPolicyConfig
) -> dict[str, Any] | None:
    """Return the component's policy; None if everyone may connect."""
    if resolved.access is NetworkAccess.NONE:
        return None
    spec = {
        "podSelector": {"matchLabels": selector(component.name)},
        "policyTypes": ["Ingress"],
        "ingress": [
            *_clients(resolved, component, config),
            *_ingress_rule(_in_namespaces(config.metrics_namespaces), [_metrics_port(component)]),
        ],
    }
    return build_component_child(resolved.service.metadata, component, NETWORK_POLICY, spec)


def _clients(resolved: Resolved, component: Component, config: NetworkPolicyConfig) -> list[dict[str, Any]]:
    if resolved.is_behind(component.kind):
        return [{"from": [{"podSelector": _callers(resolved.service.metadata.name)}]}]
    published = resolved.hosts.external
    ingress = [
        *_in_namespaces(config.ingress_namespaces if published else ()),
        *({"ipBlock": {"cidr": cidr}} for cidr in (config.ingress_cidrs if published else ())),
    ]
    ports = [int(port["containerPort"]) for _, port in component.ports.every]
    return [{"from": [{"podSelector": {}}]}, *_ingress_rule(ingress, ports)]


def _callers(service: str) -> dict[str, Any]:
    """Return the selector of the pods that call the predictor."""
    return {
        "matchLabels": {LABEL_SERVICE: service},
        "matchExpressions": [{"key": LABEL_COMPONENT, "operator": "In", "values": [TRANSFORMER, EXPLAINER]}],
    }


def _in_namespaces(names: Sequence[str]) -> list[dict[str, Any]]:
    if not names:
        return []
    expression = {"key": _NAMESPACE_NAME, "operator": "In", "values": list(names)}
    return [{"namespaceSelector": {"matchExpressions": [expression]}}]


def _ingress_rule(peers: Sequence[Mapping[str, Any]], ports: Sequence[int]) -> list[dict[str, Any]]:
    """Return the rule for connections to these ports; an empty list of peers would allow everyone."""
    if not peers:
        return []
    return [{"from": list(peers), "ports": [{"port": port, "protocol": "TCP"} for port in ports]}]


def _metrics_port(component: Component) -> int:
    written = component.annotations.get(_METRICS_PORT, "")
    return int(written) if written.isdecimal() else int(component.ports.every[0][1]["containerPort"])


def build_service(resolved: Resolved, component: Component, config: ServiceConfig) -> dict[str, Any]:
    spec = {
        "type": "ClusterIP",
        **({"clusterIP": "None"} if config.service_cluster_ip_none else {}),
        "selector": selector(component.name),
        "ports": _ports(component),
    }
    annotations = _backend_annotations(component) if component.tls else {}
    return build_component_child(resolved.service.metadata, component, "Service", spec, annotations=annotations)


def _backend_annotations(component: Component) -> dict[str, str]:
    """Return what Contour and Traefik read to speak TLS to the pods of a Service."""
    ports = [(str(number), is_grpc(port.get("name", ""))) for number, port in component.ports.every]
    http, grpc = (",".join(number for number, found in ports if found is kind) for kind in (False, True))
    named = {f"{_CONTOUR}.tls": http, f"{_CONTOUR}.h2": grpc, _TRAEFIK: "https"}
    return {name: value for name, value in named.items() if value}


def _ports(component: Component) -> list[dict[str, Any]]:
    name, server = component.name, front_of(component)
    (number, main), *others = component.ports.every
    # As with KServe, the only port of a container stays without a name. To kube-proxy, another name is another port,
    # which has no pods at first.
    unnamed = "" if server.get("ports") and not others else name
    ports = [_port(main.get("name", unnamed), number, main, tls=component.tls)]
    return ports + [
        _port(extra.get("name", f"port-{number}"), number, extra, tls=component.tls) for number, extra in others
    ]


def _port(name: str, number: int, target: Mapping[str, Any], *, tls: bool) -> dict[str, Any]:
    port = {
        **({"name": name} if name else {}),
        "port": number,
        "targetPort": target["containerPort"],
        "protocol": target.get("protocol", "TCP"),
    }
    if is_grpc(name):
        if not tls:  # there is no name for HTTP/2 over TLS: an annotation says it
            port["appProtocol"] = "kubernetes.io/h2c"
    elif tls:
        port["appProtocol"] = "https"
    return port


def render(resolved: Resolved, config: OperatorConfig) -> list[dict[str, Any]]:
    """Return the children of a service: those of each component, Deployment first, then its Ingress or HTTPRoutes."""
    children: list[dict[str, Any] | None] = []
    for component in resolved.components:
        children.append(build_deployment(resolved, component, config))
        children.append(build_service(resolved, component, config.service))
        children.append(build_autoscaler(resolved, component))
        children.append(build_disruption_budget(resolved, component, config))
        children.append(build_network_policy(resolved, component, config.network_policy))
    build = build_routes if config.ingress.enable_gateway_api else build_ingresses
    children += build(resolved, config.ingress)
    return [_without_fractions(child) for child in children if child is not None]


def _without_fractions(value: Any) -> Any:
    """Return a part of a child with 0.5 as ``500m``: a quantity is all that may have a fraction.

    Kubernetes stores it as this text, and CRDs of others take no fraction as a number.
    """
    if isinstance(value, dict):
        return {name: _without_fractions(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_fractions(item) for item in value]
    is_fraction = isinstance(value, float) and quantity(value) is not None and not value.is_integer()
    return fraction_as_text(value) if is_fraction else value
