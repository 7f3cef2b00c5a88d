"""Which components a service has, and how their Deployments and Services are called."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.resolve.components import components_of, specified_components
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
