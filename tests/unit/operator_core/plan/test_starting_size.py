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


@pytest.mark.parametrize("scaler", ["hpa", "keda"])
def test_it_starts_with_the_minimum(scaler: str) -> None:
    assert size(2, 4, scaler=scaler) == 2
    assert size(None, 4, scaler=scaler) is None


def test_one_that_may_have_no_pod_starts_with_one() -> None:
    assert size(0, 4, scaler="keda") is None


@pytest.mark.parametrize(("live", "expected"), [(1, 2), (3, 3), (9, 4)])
def test_one_that_replaces_another_starts_with_as_many_pods_within_its_bounds(live: int, expected: int) -> None:
    assert size(2, 4, a_deployment_of("predictor", live)) == expected


def test_another_component_does_not_count() -> None:
    assert size(2, 4, a_deployment_of("transformer", 4)) == 2


@pytest.mark.parametrize("fields", [{}, {"minReplicas": 3}])
def test_without_an_autoscaler_it_starts_as_rendered(fields: dict[str, Any]) -> None:
    children = the_children(a_service(predictor=fields))

    assert starting_size(children["Deployment"], list(children.values()), []) is None


def test_other_kinds_have_no_size() -> None:
    children = the_children(a_service(predictor={"minReplicas": 2, "maxReplicas": 4}))

    assert starting_size(children["Service"], list(children.values()), []) is None
