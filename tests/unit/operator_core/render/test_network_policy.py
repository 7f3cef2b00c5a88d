"""Who may connect to the pods of a service, by its NetworkPolicies as Kubernetes evaluates them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from isvc_operator.api.inference_service import InferenceService
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.render.children import render
from tests.support.builders import NAMESPACE, a_resolved, a_service
from tests.support.network_policies import Client, accepts

SERVICE = "serving.kserve.io/inferenceservice"
POLICY = "isvc-operator.io/network-policy"
WRAPPED = {
    "transformer": {"containers": [{"image": "registry.example/transformer:1", "ports": [{"containerPort": 9090}]}]}
}
HTTP, GRPC, OTHER = 8080, 8081, 9999
CLIENTS = {
    "a neighbour": Client(NAMESPACE, {"app": "shop"}),
    "the transformer": Client(NAMESPACE, {SERVICE: "torchserve", "component": "transformer"}),
    "another's transformer": Client(NAMESPACE, {SERVICE: "other", "component": "transformer"}),
    "another namespace": Client("elsewhere", {"app": "shop"}),
    "the ingress controller": Client("projectcontour", {"app": "envoy"}),
    "an ingress on a node": Client(address="10.0.0.7"),
    "the world": Client(address="192.0.2.7"),
    "Prometheus": Client("monitoring", {"app": "prometheus"}),
}


def a_config(**fields: Any) -> OperatorConfig:
    known = {"ingressNamespaces": ["projectcontour"], "ingressCidrs": ["10.0.0.0/24"]}
    return parse_config({"networkPolicy": json.dumps({**known, **fields})})


def a_closed_service(access: str, **fields: Any) -> InferenceService:
    return a_service(annotations={POLICY: access}, **fields)


def admitted(
    service: InferenceService, component: str, port: int = HTTP, config: OperatorConfig | None = None
) -> set[str]:
    """The clients whose connection to the component's pods is accepted."""
    config = config or a_config()
    children = render(a_resolved(service, config=config), config)
    policies = [child for child in children if child["kind"] == "NetworkPolicy"]
    (pods,) = (
        child["spec"]["template"]["metadata"]["labels"]
        for child in children
        if child["kind"] == "Deployment" and child["metadata"]["labels"]["component"] == component
    )
    return {name for name, client in CLIENTS.items() if accepts(policies, pods, client, port)}


NEIGHBOURS = {"a neighbour", "the transformer", "another's transformer"}
INGRESS = {"the ingress controller", "an ingress on a node"}


def test_everyone_may_connect_where_nobody_asks() -> None:
    assert admitted(a_service(), "predictor") == set(CLIENTS)


def test_a_service_closed_to_other_namespaces_accepts_its_own_and_the_ingress() -> None:
    assert admitted(a_closed_service("namespace"), "predictor") == NEIGHBOURS | INGRESS


def test_the_ingress_reaches_only_the_ports_that_serve() -> None:
    assert admitted(a_closed_service("namespace"), "predictor", OTHER) == NEIGHBOURS


def test_prometheus_reads_metrics_where_its_namespace_is_named() -> None:
    config = a_config(metricsNamespaces=["monitoring"])

    assert admitted(a_closed_service("namespace"), "predictor", config=config) == NEIGHBOURS | INGRESS | {"Prometheus"}
    assert "Prometheus" not in admitted(a_closed_service("namespace"), "predictor", GRPC, config)


def test_a_service_that_is_not_published_does_not_accept_the_ingress() -> None:
    service = a_closed_service("namespace", labels={"networking.kserve.io/visibility": "cluster-local"})

    assert admitted(service, "predictor") == NEIGHBOURS


def test_a_predictor_behind_a_transformer_accepts_that_alone() -> None:
    service = a_closed_service("service", spec=WRAPPED)

    assert admitted(service, "predictor") == {"the transformer"}
    assert admitted(service, "transformer", 9090) == NEIGHBOURS | INGRESS


def test_a_predictor_that_only_its_transformer_reaches_has_no_host() -> None:
    hosts = a_resolved(a_closed_service("service", spec=WRAPPED), config=a_config()).hosts

    assert set(hosts.components) == set(hosts.urls) == {"transformer"}


def test_a_predictor_without_a_transformer_stays_reachable() -> None:
    assert admitted(a_closed_service("service"), "predictor") == NEIGHBOURS | INGRESS


@pytest.mark.parametrize(("annotations", "closed"), [({}, True), ({POLICY: "none"}, False)])
def test_the_administrator_chooses_the_default(annotations: dict[str, str], closed: bool) -> None:
    service = a_service(annotations=annotations)

    assert ("another namespace" not in admitted(service, "predictor", config=a_config(default="namespace"))) is closed


def test_the_administrator_may_take_the_choice_away() -> None:
    config = parse_config(
        {
            "networkPolicy": '{"default": "namespace"}',
            "inferenceService": json.dumps({"serviceAnnotationDisallowedList": [POLICY]}),
        }
    )

    assert admitted(a_closed_service("none"), "predictor", config=config) == NEIGHBOURS
