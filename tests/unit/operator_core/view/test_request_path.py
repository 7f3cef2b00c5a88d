"""Request path, from its host to the predictor."""

from __future__ import annotations

from typing import Any

from isvc.view.request_path import request_path_of, shares_of
from isvc.view.shapes import well_formed
from isvc.view.source import Related
from isvc.view.values import ComponentView, HealthStatus, Hop
from tests.support.builders import a_service_body

HOST = "torchserve.models.example.com"


def a_component(kind: str, name: str) -> ComponentView:
    return ComponentView(kind=kind, name=name, health=HealthStatus.READY)


PREDICTOR = a_component("predictor", "torchserve-predictor")
TRANSFORMER = a_component("transformer", "torchserve-transformer")
EXPLAINER = a_component("explainer", "torchserve-explainer")


def an_ingress(*paths: tuple[str, str], name: str = "torchserve") -> dict[str, Any]:
    rules = [{"path": path, "backend": {"service": {"name": to, "port": {"number": 80}}}} for path, to in paths]
    return {
        "kind": "Ingress",
        "metadata": {"name": name},
        "spec": {"rules": [{"host": HOST, "http": {"paths": rules}}]},
    }


def a_route(**weights: int) -> dict[str, Any]:
    backends = [{"name": name, "weight": weight} for name, weight in weights.items()]
    rule = {"matches": [{"path": {"type": "PathPrefix", "value": "/"}}], "backendRefs": backends}
    return {"kind": "HTTPRoute", "metadata": {"name": "torchserve"}, "spec": {"hostnames": [HOST], "rules": [rule]}}


def way(*components: ComponentView, children: tuple[dict[str, Any], ...], status: Any = None) -> list[Hop]:
    related = well_formed(Related(service=a_service_body(status=status), children=children))
    return request_path_of(related.service, related.children, components)


def test_a_request_goes_by_the_transformer_to_the_predictor() -> None:
    assert way(PREDICTOR, TRANSFORMER, children=(an_ingress(("/", TRANSFORMER.name)),)) == [
        Hop(name=HOST, kind="Ingress", target=TRANSFORMER.name),
        Hop(name=TRANSFORMER.name, kind="transformer", target=PREDICTOR.name),
        Hop(name=PREDICTOR.name, kind="predictor"),
    ]


def test_explanations_go_by_the_explainer() -> None:
    ingress = an_ingress(("/v1/models/bert:explain", EXPLAINER.name), ("/", PREDICTOR.name))

    assert way(PREDICTOR, EXPLAINER, children=(ingress,)) == [
        Hop(name=HOST, kind="Ingress", target=PREDICTOR.name),
        Hop(name=HOST, kind="Ingress", target=EXPLAINER.name),
        Hop(name=PREDICTOR.name, kind="predictor"),
        Hop(name=EXPLAINER.name, kind="explainer", target=PREDICTOR.name),
    ]


def test_several_targets_have_their_weights() -> None:
    other = a_component("predictor", "torchserve-two-predictor")
    route = a_route(**{PREDICTOR.name: 3, other.name: 1})

    assert way(PREDICTOR, other, children=(route,)) == [
        Hop(name=HOST, kind="HTTPRoute", target=PREDICTOR.name, weight=75),
        Hop(name=HOST, kind="HTTPRoute", target=other.name, weight=25),
        Hop(name=PREDICTOR.name, kind="predictor"),
        Hop(name=other.name, kind="predictor"),
    ]
    assert shares_of("torchserve", [route]) == {PREDICTOR.name: 75, other.name: 25}


def test_a_service_of_the_cluster_is_reached_by_its_address() -> None:
    status = {"address": {"url": "http://torchserve-predictor.models.svc.cluster.local"}}

    assert way(PREDICTOR, children=(), status=status) == [
        Hop(name="torchserve-predictor.models.svc.cluster.local", kind="Service", target=PREDICTOR.name),
        Hop(name=PREDICTOR.name, kind="predictor"),
    ]


def test_the_routes_of_components_are_not_the_way_of_the_service() -> None:
    others = an_ingress(("/", "another"), name="torchserve-predictor")

    assert way(PREDICTOR, children=(others, an_ingress(("/", PREDICTOR.name))))[0].target == PREDICTOR.name


def test_a_route_without_any_weight_leads_nowhere() -> None:
    assert shares_of("torchserve", [a_route(**{PREDICTOR.name: 0})]) == {}
