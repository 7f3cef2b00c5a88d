"""A component's Service: port 80 for the first port of the server's container (docs/kserve.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isvc_operator.config import ServiceConfig
from isvc_operator.render.backend_tls import backend_annotations
from isvc_operator.render.metadata import child_metadata, component_labels, selector
from isvc_operator.resolve.component import Component, service_ports
from isvc_operator.resolve.containers import is_grpc
from isvc_operator.resolve.service import Resolved


def build_service(resolved: Resolved, component: Component, config: ServiceConfig) -> dict[str, Any]:
    """Return the Service of a component's pods."""
    service = resolved.service.metadata
    labels = component_labels(service, component)
    annotations = {**backend_annotations(component), **component.annotations}
    headless = {"clusterIP": "None"} if config.service_cluster_ip_none else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(service, component.name, labels=labels, annotations=annotations),
        "spec": {
            "type": "ClusterIP",
            **headless,
            "selector": selector(component.name),
            "ports": _ports(component),
        },
    }


def _ports(component: Component) -> list[dict[str, Any]]:
    name, server = component.name, component.front
    (number, main), *others = service_ports(component)
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
