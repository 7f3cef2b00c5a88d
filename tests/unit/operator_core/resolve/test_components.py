"""Which components a service has, how their Deployments and Services are called, and which container serves."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.requested import components_of, server_first, specified_components
from tests.support.builders import a_service

OWN = {"containers": [{"image": "registry.example/own:1"}]}
ART = {"art": {"type": "SquareAttack"}}


@pytest.mark.parametrize(
    ("spec", "components"),
    [
        ({}, [("predictor", "torchserve-predictor")]),
        ({"transformer": OWN}, [("predictor", "torchserve-predictor"), ("transformer", "torchserve-transformer")]),
        (
            {"explainer": OWN, "transformer": OWN},
            [
                ("predictor", "torchserve-predictor"),
                ("transformer", "torchserve-transformer"),
                ("explainer", "torchserve-explainer"),
            ],
        ),
        ({"explainer": ART}, [("predictor", "torchserve-predictor")]),
    ],
)
def test_the_predictor_comes_first_and_each_component_has_a_name(
    spec: dict[str, Any], components: list[tuple[str, str]]
) -> None:
    assert [(item.kind, item.name) for item in components_of(a_service(spec=spec))] == components


def test_the_predictors_own_name_is_part_of_its_name() -> None:
    (predictor,) = components_of(a_service(predictor={"name": "canary"}))

    assert (predictor.name, predictor.field) == ("torchserve-canary-predictor", "spec.predictor")


def test_an_explainer_without_containers_is_specified_and_gets_no_deployment() -> None:
    service = a_service(spec={"explainer": ART})

    assert [kind for kind, _ in specified_components(service.spec)] == ["predictor", "explainer"]


# --- which of the user's own containers serves --------------------------------------------------------


def names(containers: list[dict[str, Any]], field: str = "spec.predictor") -> list[str]:
    return [item["name"] for item in server_first(containers, field)]


SERVERS: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "one that has no name": ([{}], ["kserve-container"]),
    "one of another name": ([{"name": "mine"}], ["kserve-container"]),
    "the first, without a name": ([{}, {"name": "logs"}], ["kserve-container", "logs"]),
    "the one that has the name": ([{"name": "logs"}, {"name": "kserve-container"}], ["kserve-container", "logs"]),
}


@pytest.mark.parametrize(("containers", "expected"), SERVERS.values(), ids=SERVERS.keys())
def test_the_server_comes_first_under_kserves_name(containers: list[dict[str, Any]], expected: list[str]) -> None:
    assert names(containers) == expected


def test_several_containers_of_a_predictor_need_the_name() -> None:
    with pytest.raises(InvalidSpec) as caught:
        names([{"name": "one"}, {"name": "other"}])

    assert str(caught.value) == (
        "spec.predictor has several containers, and none of them is named kserve-container; give that name to the "
        "server"
    )


def test_of_a_transformers_containers_the_first_serves() -> None:
    assert names([{"name": "one"}, {"name": "other"}], "spec.transformer") == ["kserve-container", "other"]


def test_no_container_at_all_is_refused() -> None:
    with pytest.raises(InvalidSpec, match=r"spec\.transformer has no containers"):
        names([], "spec.transformer")
