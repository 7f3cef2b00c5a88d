"""Requests find their server through the rendered Ingress and Service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from isvc_operator.config import IngressConfig, OperatorConfig
from isvc_operator.local.addresses import ServiceAddress
from isvc_operator.local.children import Rendered, render_services
from isvc_operator.local.pod import Machine, plan_pod
from isvc_operator.local.routes import IngressRoute, addresses_of, find_route, grpc_port, routes_of
from tests.support.local_services import parsed, runtime, service

PREDICTOR = "first-predictor"


def rendered(config: OperatorConfig) -> Rendered:
    (only,) = render_services(parsed(service(), runtime()), (), config)
    return only


def routes(config: OperatorConfig) -> tuple[IngressRoute, ...]:
    children = rendered(config).children
    machine = Machine(Path("/run"), {"models": Path("/data")}, {}, "python", lambda: 40001)
    return routes_of(children, [plan_pod(children[0], machine)])


def test_every_host_of_the_ingress_leads_to_the_servers_port_on_this_machine() -> None:
    assert routes(OperatorConfig()) == (
        IngressRoute("first.default.example.com", "/", PREDICTOR, 40001),
        IngressRoute("first-default.example.com", "/", PREDICTOR, 40001),
        IngressRoute("first-predictor.default.example.com", "/", PREDICTOR, 40001),
        IngressRoute("first-predictor-default.example.com", "/", PREDICTOR, 40001),
    )


def test_without_an_ingress_there_are_no_routes() -> None:
    assert routes(OperatorConfig(ingress=IngressConfig(disable_ingress_creation=True))) == ()


HTTP, GRPC = {"name": "http", "containerPort": 8080}, {"name": "grpc", "containerPort": 8081}
FLAGS = ["--http-port=8080", "--grpc-port=8081"]


@pytest.mark.parametrize(
    ("ports", "http_port", "own_grpc_port"),
    [
        ([HTTP], 40001, None),
        ([HTTP, GRPC], 40001, 40002),
        ([GRPC, HTTP], 40002, 40001),
        ([GRPC], 40001, 40001),
    ],
    ids=["no gRPC", "REST first", "gRPC first", "gRPC alone"],
)
def test_the_ingress_here_leads_to_rest_and_grpc_is_reached_on_its_own_port(
    ports: list[dict[str, Any]], http_port: int, own_grpc_port: int | None
) -> None:
    (only,) = render_services(parsed(service(), runtime(ports=ports, args=FLAGS)), (), OperatorConfig())
    free = iter((40001, 40002))
    machine = Machine(Path("/run"), {"models": Path("/data")}, {}, "python", lambda: next(free))
    pods = [plan_pod(only.children[0], machine)]

    assert {route.port for route in routes_of(only.children, pods)} == {http_port}
    assert grpc_port(only.children, pods) == own_grpc_port


FIRST, PART, SECOND = (
    IngressRoute("a.example.com", "/", "first", 1),
    IngressRoute("a.example.com", "/v1", "part", 2),
    IngressRoute("b.example.com", "/", "second", 3),
)


@pytest.mark.parametrize(
    ("host", "path", "expected"),
    [
        ("a.example.com", "/", FIRST),
        ("b.example.com", "/v1/models", SECOND),
        ("A.Example.COM:8080", "/other", FIRST),
        ("a.example.com", "/v1", PART),
        ("a.example.com", "/v1/models", PART),
        ("a.example.com", "/v10", FIRST),
        ("c.example.com", "/", None),
        ("", "/", None),
    ],
)
def test_a_request_takes_the_route_of_its_host_with_the_longest_path(
    host: str, path: str, expected: IngressRoute | None
) -> None:
    assert find_route([FIRST, PART, SECOND], host, path) == expected


def test_what_is_to_be_explained_goes_to_the_explainer() -> None:
    explain = IngressRoute("first.example.com", "/v1/models/m:explain", "explainer", 1)
    rest = IngressRoute("first.example.com", "/", "transformer", 2)

    assert find_route([explain, rest], "first.example.com", "/v1/models/m:explain") == explain
    assert find_route([explain, rest], "first.example.com", "/v1/models/m:explained") == rest
    assert find_route([explain, rest], "first.example.com", "/v1/models/m:predict") == rest


def test_pods_call_those_before_them_by_their_services() -> None:
    children = rendered(OperatorConfig()).children
    machine = Machine(Path("/run"), {"models": Path("/data")}, {}, "python", lambda: 40001)
    pod = plan_pod(children[0], machine)

    assert addresses_of(children, []) == ()
    assert addresses_of(children, [pod]) == (
        ServiceAddress(PREDICTOR, "default", "127.0.0.1", {8080: 40001, 80: 40001}),
    )
