"""A component's NetworkPolicy: which pods may connect to it, where the service or the ConfigMap asks for one.

The kubelet's probes come from the node, whose connections a NetworkPolicy never refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isvc_operator.api.kinds import NETWORK_POLICY, kind_named
from isvc_operator.api.names import EXPLAINER, LABEL_COMPONENT, LABEL_SERVICE, TRANSFORMER
from isvc_operator.config import NetworkAccess, NetworkPolicyConfig
from isvc_operator.render.metadata import child_metadata, component_labels, selector
from isvc_operator.resolve.component import Component, service_ports
from isvc_operator.resolve.service import Resolved

_NAMESPACE_NAME = "kubernetes.io/metadata.name"  # a label that the API server sets
_METRICS_PORT = "prometheus.io/port"


def build_network_policy(
    resolved: Resolved, component: Component, config: NetworkPolicyConfig
) -> dict[str, Any] | None:
    """Return the component's policy; None if everyone may connect."""
    if resolved.access is NetworkAccess.NONE:
        return None
    service = resolved.service.metadata
    labels = component_labels(service, component)
    return {
        "apiVersion": kind_named(NETWORK_POLICY).api_version,
        "kind": NETWORK_POLICY,
        "metadata": child_metadata(service, component.name, labels=labels, annotations=component.annotations),
        "spec": {
            "podSelector": {"matchLabels": selector(component.name)},
            "policyTypes": ["Ingress"],
            "ingress": [
                *_clients(resolved, component, config),
                *_rule(_in_namespaces(config.metrics_namespaces), [_metrics_port(component)]),
            ],
        },
    }


def _clients(resolved: Resolved, component: Component, config: NetworkPolicyConfig) -> list[dict[str, Any]]:
    if resolved.is_behind(component.kind):
        return [{"from": [{"podSelector": _callers(resolved.service.metadata.name)}]}]
    published = resolved.hosts.external
    ingress = [
        *_in_namespaces(config.ingress_namespaces if published else ()),
        *({"ipBlock": {"cidr": cidr}} for cidr in (config.ingress_cidrs if published else ())),
    ]
    ports = [int(port["containerPort"]) for _, port in service_ports(component)]
    return [{"from": [{"podSelector": {}}]}, *_rule(ingress, ports)]


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


def _rule(peers: Sequence[Mapping[str, Any]], ports: Sequence[int]) -> list[dict[str, Any]]:
    """Return the rule for connections to these ports; an empty list of peers would allow everyone."""
    if not peers:
        return []
    return [{"from": list(peers), "ports": [{"port": port, "protocol": "TCP"} for port in ports]}]


def _metrics_port(component: Component) -> int:
    written = component.annotations.get(_METRICS_PORT, "")
    return int(written) if written.isdecimal() else int(service_ports(component)[0][1]["containerPort"])
