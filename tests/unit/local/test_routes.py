"""Requests find their server through the service's routes and the rendered Service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from isvc_operator.config import IngressConfig, OperatorConfig
from isvc_operator.local.addresses import ServiceAddress
from isvc_operator.local.children import Rendered, render_services
from isvc_operator.local.pod import Machine, plan_pod
from isvc_operator.local.routes import IngressRoute, addresses_of, find_route, grpc_port, ingress_routes
from isvc_operator.render.routes import routes_of
from tests.support.local_services import parsed, runtime, service

PREDICTOR = "first-predictor"


def rendered(config: OperatorConfig) -> Rendered:
    (only,), _ = render_services(parsed(service(), runtime()), (), config)
    return only


def routes(config: OperatorConfig) -> tuple[IngressRoute, ...]:
    only = rendered(config)
    machine = Machine(Path("/run"), {"models": Path("/data")}, {}, "python", lambda: 40001)
    return ingress_routes(routes_of(only.resolved), only.children, [plan_pod(only.children[0], machine)])


def test_every_host_of_the_ingress_leads_to_the_servers_port_on_this_machine() -> None:
    assert routes(OperatorConfig()) == (
        IngressRoute("first.default.example.com", "/", PREDICTOR, 40001),
        IngressRoute("first-default.example.com", "/", PREDICTOR, 40001),
        IngressRoute("first-predictor.default.example.com", "/", PREDICTOR, 40001),
        IngressRoute("first-predictor-default.example.com", "/", PREDICTOR, 40001),
    )


def test_httproutes_lead_to_the_same_ports_and_a_path_on_the_shared_host_does_as_well() -> None:
    config = IngressConfig(
        enable_gateway_api=True,
        path_template="/serving/{{ .Namespace }}/{{ .Name }}",
        additional_ingress_domains=("b.test",),
        additional_domain_templates=(),
    )
    path = "/serving/default/first"

    assert routes(OperatorConfig(ingress=config)) == (
        IngressRoute("first.default.example.com", "/", PREDICTOR, 40001),
        IngressRoute("first.default.b.test", "/", PREDICTOR, 40001),
        IngressRoute("example.com", path, PREDICTOR, 40001, prefix=path),
        IngressRoute("first-predictor.default.example.com", "/", PREDICTOR, 40001),
    )


@pytest.mark.parametrize(
    ("requested", "target"),
    [
        ("/a/b/v1/models?x=/a/b", "/v1/models?x=/a/b"),
        ("/a/b", "/"),
        ("/a/b?x", "/?x"),
        ("/a/b/", "/"),
        ("/%61/b/v1", "/%61/b/v1"),
    ],
)
def test_the_server_gets_the_path_without_the_prefix(requested: str, target: str) -> None:
    assert IngressRoute("example.com", "/a/b", PREDICTOR, 1, prefix="/a/b").target(requested) == target


def test_without_a_prefix_the_path_is_as_requested() -> None:
    assert FIRST.target("/v1/models/m%20n?x") == "/v1/models/m%20n?x"


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
        ([{"containerPort": 8080}], 40001, None),
    ],
    ids=["no gRPC", "REST first", "gRPC first", "gRPC alone", "a port without a name"],
)
def test_the_ingress_here_leads_to_rest_and_grpc_is_reached_on_its_own_port(
    ports: list[dict[str, Any]], http_port: int, own_grpc_port: int | None
) -> None:
    (only,), _ = render_services(parsed(service(), runtime(ports=ports, args=FLAGS)), (), OperatorConfig())
    free = iter((40001, 40002))
    machine = Machine(Path("/run"), {"models": Path("/data")}, {}, "python", lambda: next(free))
    pods = [plan_pod(only.children[0], machine)]

    assert {route.port for route in ingress_routes(routes_of(only.resolved), only.children, pods)} == {http_port}
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
    explain = IngressRoute("first.example.com", "/v1/models/m:explain", "explainer", 1, exact=True)
    rest = IngressRoute("first.example.com", "/", "transformer", 2)

    assert find_route([explain, rest], "first.example.com", "/v1/models/m:explain") == explain
    assert find_route([explain, rest], "first.example.com", "/v1/models/m:explained") == rest
    assert find_route([explain, rest], "first.example.com", "/v1/models/m:explain/more") == rest
    assert find_route([explain, rest], "first.example.com", "/v1/models/m:predict") == rest


def test_pods_call_those_before_them_by_their_services() -> None:
    children = rendered(OperatorConfig()).children
    machine = Machine(Path("/run"), {"models": Path("/data")}, {}, "python", lambda: 40001)
    pod = plan_pod(children[0], machine)

    assert addresses_of(children, []) == ()
    assert addresses_of(children, [pod]) == (
        ServiceAddress(PREDICTOR, "default", "127.0.0.1", {8080: 40001, 8081: 40001, 80: 40001}),
    )
