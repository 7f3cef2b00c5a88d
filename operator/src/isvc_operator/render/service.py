"""The predictor's Service: port 80 in front of the server's first port (contract §4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isvc_operator.render.deployment import first_port
from isvc_operator.render.metadata import child_metadata, component_labels, selector
from isvc_operator.resolve import Resolved
from isvc_operator.resolve.containers import is_grpc

PORT = 80


def build_service(resolved: Resolved) -> dict[str, Any]:
    """The Service of the predictor's pods."""
    service, predictor = resolved.service.metadata, resolved.predictor
    labels = component_labels(service, "predictor", predictor.name, predictor.labels)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(service, predictor.name, labels, predictor.annotations),
        "spec": {
            "type": "ClusterIP",
            "selector": selector(predictor.name),
            "ports": _ports(predictor.name, predictor.server),
        },
    }


def _ports(name: str, server: Mapping[str, Any]) -> list[dict[str, Any]]:
    main = first_port(server)
    ports = [_port(main.get("name", name), PORT, main)]
    for extra in (server.get("ports") or ())[1:]:
        number = extra["containerPort"]
        ports.append(_port(extra.get("name", f"port-{number}"), number, extra))
    return ports


def _port(name: str, number: int, target: Mapping[str, Any]) -> dict[str, Any]:
    port = {
        "name": name,
        "port": number,
        "targetPort": target["containerPort"],
        "protocol": target.get("protocol", "TCP"),
    }
    if is_grpc(name):
        port["appProtocol"] = "kubernetes.io/h2c"
    return port
