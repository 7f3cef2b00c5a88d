"""Requests find their server through the rendered Ingress and Service."""

from __future__ import annotations

from pathlib import Path

import pytest

from isvc_operator.config import IngressConfig, OperatorConfig
from isvc_operator.local.children import Rendered, render_services
from isvc_operator.local.pod import Machine, plan_pod
from isvc_operator.local.routes import Route, find_route, routes_of
from tests.support.local_services import parsed, runtime, service

PREDICTOR = "first-predictor"


def rendered(config: OperatorConfig) -> Rendered:
    (only,) = render_services(parsed(service(), runtime()), (), config)
    return only


def routes(config: OperatorConfig) -> tuple[Route, ...]:
    children = rendered(config).children
    machine = Machine(Path("/run"), {"models": Path("/data")}, {}, "python", lambda: 40001)
    return routes_of(children, [plan_pod(children[0], machine)])


def test_every_host_of_the_ingress_leads_to_the_servers_port_on_this_machine() -> None:
    assert routes(OperatorConfig()) == (
        Route("first.default.example.com", "/", PREDICTOR, 40001),
        Route("first-default.example.com", "/", PREDICTOR, 40001),
        Route("first-predictor.default.example.com", "/", PREDICTOR, 40001),
        Route("first-predictor-default.example.com", "/", PREDICTOR, 40001),
    )


def test_without_an_ingress_there_are_no_routes() -> None:
    assert routes(OperatorConfig(ingress=IngressConfig(disable_ingress_creation=True))) == ()


FIRST, PART, SECOND = (
    Route("a.example.com", "/", "first", 1),
    Route("a.example.com", "/v1", "part", 2),
    Route("b.example.com", "/", "second", 3),
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
    host: str, path: str, expected: Route | None
) -> None:
    assert find_route([FIRST, PART, SECOND], host, path) == expected
