"""The ports of the predictor's Service (docs/kserve.md)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import a_runtime, the_children

PORTS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "no port at all": (
        [],
        [{"name": "torchserve-predictor", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
    ),
    "a port without a name": (
        [{"containerPort": 9000}],
        [{"port": 80, "targetPort": 9000, "protocol": "TCP"}],
    ),
    "a port with a name": (
        [{"name": "http1", "containerPort": 8085}],
        [{"name": "http1", "port": 80, "targetPort": 8085, "protocol": "TCP"}],
    ),
    "a gRPC port": (
        [{"name": "h2c", "containerPort": 9000, "protocol": "TCP"}],
        [
            {
                "name": "h2c",
                "port": 80,
                "targetPort": 9000,
                "protocol": "TCP",
                "appProtocol": "kubernetes.io/h2c",
            }
        ],
    ),
    "more ports under their own numbers": (
        [
            {"name": "http", "containerPort": 8080},
            {"name": "GRPC-port", "containerPort": 9000},
            {"containerPort": 53, "protocol": "UDP"},
        ],
        [
            {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"},
            {
                "name": "GRPC-port",
                "port": 9000,
                "targetPort": 9000,
                "protocol": "TCP",
                "appProtocol": "kubernetes.io/h2c",
            },
            {"name": "port-53", "port": 53, "targetPort": 53, "protocol": "UDP"},
        ],
    ),
}


@pytest.mark.parametrize(("container", "service"), PORTS.values(), ids=PORTS.keys())
def test_the_services_ports_for(container: list[dict[str, Any]], service: list[dict[str, Any]]) -> None:
    children = the_children(runtime=a_runtime(container={"ports": container}))

    assert children["Service"]["spec"]["ports"] == service


def test_the_service_selects_the_pods_by_their_app_alone() -> None:
    children = the_children()

    labels = children["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert children["Service"]["spec"]["selector"] == {"app": labels["app"]} == {"app": "isvc.torchserve-predictor"}
