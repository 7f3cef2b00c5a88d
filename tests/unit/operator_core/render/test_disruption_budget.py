"""Where a component's pods get a PodDisruptionBudget."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.config import OperatorConfig
from isvc_operator.render.children import render
from tests.support.builders import a_resolved, a_service


def budgets(
    *others: dict[str, Any], config: OperatorConfig | None = None, scaler: str = "hpa", **predictor: Any
) -> list[Any]:
    config = config or OperatorConfig()
    service = a_service(predictor=predictor, annotations={"serving.kserve.io/autoscalerClass": scaler})
    resolved = a_resolved(service, config=config, budgets=others)
    return [child["spec"] for child in render(resolved, config) if child["kind"] == "PodDisruptionBudget"]


BUDGET = {
    "maxUnavailable": 1,
    "selector": {"matchLabels": {"app": "isvc.torchserve-predictor"}},
    "unhealthyPodEvictionPolicy": "AlwaysAllow",
}


def a_selector(*expressions: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {"spec": {"selector": {"matchLabels": labels, "matchExpressions": list(expressions)}}}


SELECTING: dict[str, dict[str, Any]] = {
    "a label": a_selector(component="predictor"),
    "everything": {"spec": {"selector": {}}},
    "one of several values": a_selector({"key": "component", "operator": "In", "values": ["predictor", "x"]}),
    "another value": a_selector({"key": "component", "operator": "NotIn", "values": ["x"]}),
    "a label that is there": a_selector({"key": "app", "operator": "Exists"}),
    "a label that is not there": a_selector({"key": "team", "operator": "DoesNotExist"}),
}
NOT_SELECTING: dict[str, dict[str, Any]] = {
    "another label": a_selector(app="mine"),
    "one label of two": a_selector(component="predictor", team="a"),
    "nothing": {"spec": {}},
    "one of other values": a_selector({"key": "component", "operator": "In", "values": ["x"]}),
    "other values": a_selector({"key": "component", "operator": "NotIn", "values": ["predictor"]}),
    "a label that is missing": a_selector({"key": "team", "operator": "Exists"}),
    "a label that must be missing": a_selector({"key": "app", "operator": "DoesNotExist"}),
}


@pytest.mark.parametrize("other", SELECTING.values(), ids=SELECTING.keys())
def test_pods_that_have_a_budget_get_no_second_one(other: dict[str, Any]) -> None:
    assert budgets(other, minReplicas=2) == []


@pytest.mark.parametrize("other", NOT_SELECTING.values(), ids=NOT_SELECTING.keys())
def test_a_budget_for_other_pods_does_not_count(other: dict[str, Any]) -> None:
    assert budgets(other, minReplicas=2) == [BUDGET]
