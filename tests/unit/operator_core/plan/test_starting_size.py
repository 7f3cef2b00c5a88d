"""With how many pods a Deployment starts whose number is left to an autoscaler."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.plan.changes import starting_size
from tests.support.builders import a_child, a_service, the_children


def size(minimum: int | None, maximum: int, *owned: dict[str, Any], scaler: str = "hpa") -> int | None:
    annotations = {"serving.kserve.io/autoscalerClass": scaler}
    query = {"metric": {"serverAddress": "http://p", "query": "q"}, "target": {"value": 1}}
    metrics = [{"type": "External", "external": query}]
    fields = {"minReplicas": minimum, "maxReplicas": maximum, "autoScaling": {"metrics": metrics}}
    children = the_children(a_service(predictor=fields, annotations=annotations))
    return starting_size(children["Deployment"], list(children.values()), owned)


def a_deployment_of(component: str, replicas: int) -> dict[str, Any]:
    metadata = a_child()["metadata"]
    labelled = {**metadata, "name": "other", "labels": {**metadata["labels"], "component": component}}
    return a_child(metadata=labelled, spec={"replicas": replicas})


@pytest.mark.parametrize(
    ("minimum", "scaler", "owned", "expected"),
    [
        (2, "hpa", [], 2),
        (2, "keda", [], 2),
        (None, "hpa", [], None),
        (0, "keda", [], None),
        (2, "hpa", [a_deployment_of("predictor", 1)], 2),
        (2, "hpa", [a_deployment_of("predictor", 3)], 3),
        (2, "hpa", [a_deployment_of("predictor", 9)], 4),
        (2, "hpa", [a_deployment_of("transformer", 4)], 2),
    ],
    ids=["minimum", "KEDA's minimum", "no minimum", "none", "replaces 1", "replaces 3", "replaces 9", "another"],
)
def test_it_starts_with_the_minimum_or_as_many_pods_as_it_replaces_within_its_bounds(
    minimum: int | None, scaler: str, owned: list[dict[str, Any]], expected: int | None
) -> None:
    assert size(minimum, 4, *owned, scaler=scaler) == expected


@pytest.mark.parametrize("fields", [{}, {"minReplicas": 3}])
def test_without_an_autoscaler_it_starts_as_rendered(fields: dict[str, Any]) -> None:
    children = the_children(a_service(predictor=fields))

    assert starting_size(children["Deployment"], list(children.values()), []) is None


def test_other_kinds_have_no_size() -> None:
    children = the_children(a_service(predictor={"minReplicas": 2, "maxReplicas": 4}))

    assert starting_size(children["Service"], list(children.values()), []) is None
