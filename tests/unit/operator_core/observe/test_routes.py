"""Whether requests reach a service, from what the gateway's controller reports of its routes."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.observe.routes import RouteProblem, first_problem
from tests.support.builders import a_child

GATEWAY = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "gateways", "name": "kserve"}
ANOTHER = {**GATEWAY, "name": "another"}
WANTED = a_child("HTTPRoute", spec={"parentRefs": [GATEWAY]})
WHAT = "HTTPRoute torchserve-predictor"


def a_condition(type_: str, status: str, generation: int = 2, **fields: Any) -> dict[str, Any]:
    return {"type": type_, "status": status, "observedGeneration": generation, **fields}


ACCEPTED, RESOLVED = a_condition("Accepted", "True"), a_condition("ResolvedRefs", "True")


def observed(*conditions: dict[str, Any], parent: dict[str, Any] = GATEWAY) -> dict[str, Any]:
    metadata = {**WANTED["metadata"], "generation": 2}
    return {**WANTED, "metadata": metadata, "status": {"parents": [{"parentRef": parent, "conditions": [*conditions]}]}}


def reported(*conditions: dict[str, Any], **fields: Any) -> RouteProblem | None:
    return first_problem([WANTED], [observed(*conditions, **fields)])


def test_an_accepted_route_and_an_existing_ingress_have_no_problem() -> None:
    assert reported(ACCEPTED, RESOLVED) is None
    assert first_problem([a_child("Ingress")], [a_child("Ingress")]) is None
    assert first_problem([], []) is None


@pytest.mark.parametrize(
    ("child", "problem"),
    [
        (a_child("Ingress"), RouteProblem("IngressNotCreated", "The Ingress does not exist yet")),
        (WANTED, RouteProblem("RouteNotCreated", f"{WHAT} does not exist yet")),
    ],
)
def test_what_is_not_created_is_named(child: dict[str, Any], problem: RouteProblem) -> None:
    assert first_problem([child], []) == problem


def test_a_gateway_api_that_is_not_installed_is_named_with_what_to_do() -> None:
    assert first_problem([WANTED], [], missing={"HTTPRoute"}) == RouteProblem(
        "GatewayApiNotInstalled",
        "the cluster has no kind HTTPRoute of gateway.networking.k8s.io/v1: the Gateway API is not installed; install "
        "it together with a gateway controller, or set enableGatewayApi to false in inferenceservice-config",
    )


@pytest.mark.parametrize("route", [WANTED, observed(ACCEPTED, parent=ANOTHER), observed()])
def test_a_gateway_that_reports_nothing_may_not_exist(route: dict[str, Any]) -> None:
    assert first_problem([WANTED], [route]) == RouteProblem(
        "ParentStatusNotAvailable",
        f"{WHAT} is not accepted yet: Gateway gateways/kserve has reported no status; if this stays, check that this "
        "Gateway exists (kserveIngressGateway in inferenceservice-config) and that its controller runs",
    )


def test_a_report_on_an_earlier_generation_does_not_count() -> None:
    assert reported(a_condition("Accepted", "True", generation=1), RESOLVED) == RouteProblem(
        "ParentStatusOutdated", f"Gateway gateways/kserve has not reported on the latest {WHAT} yet", failed=False
    )


def test_reason_and_message_are_those_of_the_gateway_with_what_to_do() -> None:
    refused = a_condition("Accepted", "False", reason="NotAllowedByListeners", message="No listeners allow this route.")

    assert reported(refused, RESOLVED) == RouteProblem(
        "NotAllowedByListeners",
        f"{WHAT}: Gateway gateways/kserve reports NotAllowedByListeners: No listeners allow this route; let the "
        "administrator allow routes of this namespace and kind in the Gateway's listeners (allowedRoutes.namespaces "
        "and allowedRoutes.kinds)",
    )


def test_a_reason_that_nobody_knows_is_passed_on() -> None:
    unresolved = a_condition("ResolvedRefs", "False", reason="OfTheVendor", message="x")

    assert reported(ACCEPTED, unresolved) == RouteProblem(
        "OfTheVendor", f"{WHAT}: Gateway gateways/kserve reports OfTheVendor: x"
    )


def test_a_message_of_any_length_is_shortened() -> None:
    problem = reported(a_condition("Accepted", "False", message="x" * 100_000))

    assert problem is not None
    assert problem.reason == "NotAccepted"
    assert len(problem.message) < 2000
