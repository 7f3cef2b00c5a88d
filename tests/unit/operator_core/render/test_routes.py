"""Which requests go where, whatever kind of object the routes become."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.config import IngressConfig, OperatorConfig
from isvc_operator.render.routes import GRPC_PATH, PathRule, ServiceRoute, build_routes, routes_of
from tests.support.builders import a_resolved, a_runtime, a_service

CONFIG = OperatorConfig(
    ingress=IngressConfig(enable_gateway_api=True, path_template="/of/{{ .Name }}", additional_domain_templates=())
)
HTTP, GRPC = {"name": "http", "containerPort": 8080}, {"name": "h2c", "containerPort": 9000}
HOST, OWN = "torchserve.models.example.com", "torchserve-predictor.models.example.com"
PREDICTOR = "torchserve-predictor"


def routes(*ports: dict[str, Any], config: OperatorConfig = CONFIG, **service: Any) -> tuple[ServiceRoute, ...]:
    return routes_of(a_resolved(a_service(**service), a_runtime(container={"ports": [*ports]}), config))


@pytest.mark.parametrize(("ports", "rest", "grpc"), [((HTTP, GRPC), 80, 9000), ((GRPC, HTTP), 8080, 80)])
def test_calls_have_a_rule_of_their_own_on_the_host_of_rest_and_none_below_a_path(
    ports: Any, rest: int, grpc: int
) -> None:
    for_rest, for_grpc = PathRule("/", PREDICTOR, rest), PathRule(GRPC_PATH, PREDICTOR, grpc, grpc=True)

    assert routes(*ports) == (
        ServiceRoute("torchserve", (HOST,), (for_grpc, for_rest)),
        ServiceRoute("torchserve-path", ("example.com",), (for_rest,), prefix="/of/torchserve"),
        ServiceRoute(PREDICTOR, (OWN,), (for_grpc, for_rest)),
    )


def test_a_service_that_speaks_only_grpc_takes_nothing_on_the_shared_host() -> None:
    rule = PathRule("/", PREDICTOR, 80, grpc=True)
    resolved = a_resolved(runtime=a_runtime(container={"ports": [GRPC]}), config=CONFIG)

    assert routes_of(resolved) == (
        ServiceRoute("torchserve", (HOST,), (rule,)),
        ServiceRoute(PREDICTOR, (OWN,), (rule,)),
    )
    assert {child["kind"] for child in build_routes(resolved, CONFIG.ingress)} == {"GRPCRoute"}
    assert resolved.hosts.url == f"http://{HOST}"


@pytest.mark.parametrize(
    ("timeout", "disabled", "request_"),
    [
        (None, False, "60s"),
        (0, False, "60s"),
        (7, False, "7s"),
        (7, True, None),
        (99_999, False, "99999s"),
        (100_000, False, "28h"),
        (10**12, False, "99999h"),
    ],
)
def test_the_timeout_is_that_of_the_component(timeout: int | None, disabled: bool, request_: str | None) -> None:
    config = IngressConfig(enable_gateway_api=True, disable_http_route_timeout=disabled)
    service = a_service(predictor={} if timeout is None else {"timeout": timeout})

    built = build_routes(a_resolved(service), config)

    assert {rule.get("timeouts", {}).get("request") for route in built for rule in route["spec"]["rules"]} == {request_}


def test_a_service_that_would_lose_an_annotation_that_guards_it_has_no_route() -> None:
    """A gateway does not read it, although an Ingress controller does."""
    annotations = {"nginx.ingress.kubernetes.io/allowlist-source-range": "10.0.0.0/8"}

    assert routes(annotations=annotations) == ()
    assert routes(annotations=annotations, config=OperatorConfig()) != ()


def test_a_cluster_local_service_has_no_route() -> None:
    assert routes(labels={"networking.kserve.io/visibility": "cluster-local"}) == ()
