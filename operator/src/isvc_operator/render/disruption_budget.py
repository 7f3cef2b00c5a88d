"""A component's PodDisruptionBudget: where it may have several pods, a drain of nodes takes one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isvc_operator.api.kinds import DISRUPTION_BUDGET, kind_named
from isvc_operator.config import OperatorConfig
from isvc_operator.render.metadata import child_metadata, component_labels, selector
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.service import Resolved


def build_disruption_budget(resolved: Resolved, component: Component, config: OperatorConfig) -> dict[str, Any] | None:
    """Return the component's budget; None for one pod, if the ConfigMap turns it off, or if the pods have another.

    Kubernetes evicts no pod that two budgets select, so that no node could be drained any more.
    """
    service = resolved.service.metadata
    labels = component_labels(service, component)
    if component.scaling.largest < 2 or not config.inference_service.pod_disruption_budget:
        return None
    if any(_selects(budget["spec"].get("selector"), labels) for budget in resolved.budgets):
        return None
    return {
        "apiVersion": kind_named(DISRUPTION_BUDGET).api_version,
        "kind": DISRUPTION_BUDGET,
        "metadata": child_metadata(service, component.name, labels=labels, annotations=component.annotations),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": selector(component.name)},
            # A pod that is not ready serves nobody, and must not keep a node from being drained.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _selects(selector_: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; one that is empty matches all, one that is missing none."""
    if selector_ is None:
        return False
    wanted = selector_.get("matchLabels") or {}
    return all(labels.get(name) == value for name, value in wanted.items()) and all(
        _matches(expression, labels) for expression in selector_.get("matchExpressions") or ()
    )


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None
