"""Requests find their server through the service's routes and the rendered Service."""

from __future__ import annotations

from typing import Any

import pytest

from isvc.run.addresses import ServiceAddress
from isvc.run.children import Rendered, render_services
from isvc.run.endpoints import Endpoints
from isvc.run.routes import (
    IngressRoute,
    addresses_of,
    find_route,
    ingress_routes,
    is_prediction,
    service_ports,
)
from isvc_operator.config import IngressConfig, OperatorConfig
from isvc_operator.render.routes import routes_of
from tests.support.local_services import parsed, runtime, service

PREDICTOR = "first-predictor"


def rendered(config: OperatorConfig) -> Rendered:
    (only,), _ = render_services(parsed(service(), runtime()), (), config)
    return only


def ports_of(only: Rendered) -> dict[tuple[str, int], Endpoints]:
    """The endpoints of each Service's port: the port of this machine that has 40000 added."""
    return {(port.service, port.port): Endpoints((40000 + port.port,)) for port in service_ports(only.children)}


def routes(config: OperatorConfig) -> tuple[IngressRoute, ...]:
    only = rendered(config)
    return ingress_routes(routes_of(only.resolved), ports_of(only), only.key)


def of(route: IngressRoute) -> tuple[str, str, str]:
    return route.host, route.path, route.prefix


def test_every_host_of_the_ingress_leads_to_the_service_and_a_path_of_this_machines_own_names_does_as_well() -> None:
    found = routes(OperatorConfig())

    assert [of(route) for route in found] == [
        ("first.default.example.com", "/", ""),
        ("first-default.example.com", "/", ""),
        ("first-predictor.default.example.com", "/", ""),
        ("first-predictor-default.example.com", "/", ""),
        ("127.0.0.1", "/default/first", "/default/first"),
        ("localhost", "/default/first", "/default/first"),
    ]
    assert {(route.service, route.endpoints.ports) for route in found} == {(PREDICTOR, (40080,))}


def test_httproutes_lead_to_the_same_ports_and_a_path_on_the_shared_host_does_as_well() -> None:
    config = IngressConfig(
        enable_gateway_api=True,
        path_template="/serving/{{ .Namespace }}/{{ .Name }}",
        additional_ingress_domains=("b.test",),
        additional_domain_templates=(),
    )
    path = "/serving/default/first"

    assert [of(route) for route in routes(OperatorConfig(ingress=config))] == [
        ("first.default.example.com", "/", ""),
        ("first.default.b.test", "/", ""),
        ("example.com", path, path),
        ("first-predictor.default.example.com", "/", ""),
        ("127.0.0.1", "/default/first", "/default/first"),
        ("localhost", "/default/first", "/default/first"),
    ]


@pytest.mark.parametrize(
    ("requested", "target"),
    [
        ("/a/b/v1/models?x=/a/b", "/v1/models?x=/a/b"),
        ("/%61/b/v1/m%2Fx", "/v1/m%2Fx"),
        ("%2f%61%2Fb/v1", "/v1"),
        ("/a/b", "/"),
        ("/a/b?x", "/?x"),
        ("/a/b/", "/"),
    ],
)
def test_the_server_gets_the_path_without_the_prefix(requested: str, target: str) -> None:
    assert IngressRoute("example.com", "/a/b", PREDICTOR, Endpoints(), prefix="/a/b").target(requested) == target


HTTP, GRPC = {"name": "http", "containerPort": 8080}, {"name": "grpc", "containerPort": 8081}
FLAGS = ["--http-port=8080", "--grpc-port=8081"]


@pytest.mark.parametrize(
    ("ports", "http_port", "grpc_ports"),
    [
        ([HTTP], 80, []),
        ([HTTP, GRPC], 80, [8081]),
        ([GRPC, HTTP], 8080, [80]),
        ([GRPC], 80, [80]),
        ([{"containerPort": 8080}], 80, []),
    ],
    ids=["no gRPC", "REST first", "gRPC first", "gRPC alone", "a port without a name"],
)
def test_the_ingress_here_leads_to_rest_and_grpc_is_reached_on_its_own_port(
    ports: list[dict[str, Any]], http_port: int, grpc_ports: list[int]
) -> None:
    (only,), _ = render_services(parsed(service(), runtime(ports=ports, args=FLAGS)), (), OperatorConfig())
    found = ingress_routes(routes_of(only.resolved), ports_of(only), only.key)

    assert {route.endpoints.ports for route in found} == {(40000 + http_port,)}
    assert [port.port for port in service_ports(only.children) if port.is_grpc] == grpc_ports


FIRST, PART, SECOND = (
    IngressRoute("a.example.com", "/", "first", Endpoints((1,))),
    IngressRoute("a.example.com", "/v1", "part", Endpoints((2,))),
    IngressRoute("b.example.com", "/", "second", Endpoints((3,))),
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
    explain = IngressRoute("first.example.com", "/v1/models/m:explain", "explainer", Endpoints(), exact=True)
    rest = IngressRoute("first.example.com", "/", "transformer", Endpoints())

    assert find_route([explain, rest], "first.example.com", "/v1/models/m:explain") == explain
    assert find_route([explain, rest], "first.example.com", "/v1/models/m:explained") == rest
    assert find_route([explain, rest], "first.example.com", "/v1/models/m:explain/more") == rest
    assert find_route([explain, rest], "first.example.com", "/v1/models/m:predict") == rest


def test_pods_call_those_of_the_given_labels_by_their_services() -> None:
    ports = [(port, 50000 + port.port) for port in service_ports(rendered(OperatorConfig()).children)]

    assert addresses_of(ports, "default", []) == ()
    assert addresses_of(ports, "default", [{"app": f"isvc.{PREDICTOR}", "other": "label"}]) == (
        ServiceAddress(PREDICTOR, "default", "127.0.0.1", {80: 50080, 8080: 50080}),
    )


@pytest.mark.parametrize(
    ("target", "is_one"),
    [
        ("/v1/models/bert:predict", True),
        ("/v1/models/bert%3Apredict?x=1", True),
        ("/v2/models/bert/infer", True),
        ("/v2/models/bert/versions/2/infer", True),
        ("/v2/models/bert/load", False),
        ("/v2/repository/index", False),
        ("/v1/models/bert:explain", False),
        ("/predictions/bert", True),
        ("/predictions/bert/1.0?top_k=3", True),
        ("/explanations/bert", False),
        ("/models/bert/invoke", True),
        ("/models/bert", False),
        ("/invocations?model_name=bert", True),
        ("/inference.GRPCInferenceService/ModelInfer", True),
        ("/inference.GRPCInferenceService/ModelMetadata", False),
        ("/org.pytorch.serve.grpc.inference.InferenceAPIsService/Predictions", True),
        ("/org.pytorch.serve.grpc.inference.InferenceAPIsService/Ping", False),
    ],
)
def test_a_prediction_is_one_of_any_protocol(target: str, is_one: bool) -> None:
    assert is_prediction(target) is is_one
