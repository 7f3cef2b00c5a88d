"""When an autoscaler counts as not working, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.observe.autoscalers import autoscaler_problem
from isvc_operator.observe.conditions import condition
from tests.support.builders import EARLIER, NOW, a_child

HPA, SCALED_OBJECT = "HorizontalPodAutoscaler", "ScaledObject"
SOON = "2026-01-01T11:01:59Z"  # less than two minutes after EARLIER
NO_METRICS = "unable to fetch metrics from resource metrics API"


def an_autoscaler(kind: str, type_: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    told = {"type": type_, "status": status, "reason": reason, "message": message}
    return a_child(kind, status={"conditions": [{"type": "AbleToScale", "status": "True"}, told]})


WITHOUT_METRICS = an_autoscaler(HPA, "ScalingActive", "False", "FailedGetResourceMetric", NO_METRICS)
REFUSED = an_autoscaler(SCALED_OBJECT, "Ready", "False", "ScaledObjectCheckFailed", "no scaler of type prometheu")


def said(
    autoscaler: dict[str, Any] | None, ready: bool | None = True, now: str = NOW, *, is_told: bool = False
) -> list[tuple[str, str | None, str | None]]:
    before = condition("PredictorReady", ready).model_copy(update={"last_transition_time": EARLIER})
    found = autoscaler_problem(autoscaler, before, now, is_told=is_told)
    return [(item.status, item.reason, item.message) for item in found]


INACTIVE = (
    "True",
    "ScalingInactive",
    "HorizontalPodAutoscaler torchserve-predictor does not set the number of pods: FailedGetResourceMetric: "
    f"{NO_METRICS}; kubectl top pods tells whether the cluster has metrics; if it has none, install metrics-server",
)


def test_a_cluster_without_metrics() -> None:
    assert said(WITHOUT_METRICS) == [INACTIVE]


def test_a_scaled_object_that_keda_refuses_whether_there_are_pods_or_not() -> None:
    words = "ScaledObjectCheckFailed: no scaler of type prometheu; correct what KEDA names, or see its log"
    message = f"ScaledObject torchserve-predictor does not set the number of pods: {words}"

    assert said(REFUSED, None) == [("True", "ScaledObjectNotReady", message)]


def test_pods_that_have_just_become_ready_may_have_no_metrics_yet() -> None:
    assert said(WITHOUT_METRICS, now=SOON) == []
    assert said(WITHOUT_METRICS, None) == []
    assert said(WITHOUT_METRICS, None, is_told=True) == [INACTIVE]


@pytest.mark.parametrize(
    "autoscaler",
    [
        None,
        a_child(HPA),
        an_autoscaler(HPA, "ScalingActive", "True", "ValidMetricFound"),
        an_autoscaler(HPA, "ScalingActive", "False", "ScalingDisabled", "the replica count of the target is zero"),
        an_autoscaler(SCALED_OBJECT, "Ready", "True", "ScaledObjectReady"),
        an_autoscaler(SCALED_OBJECT, "Ready", "Unknown", "ScaledObjectInitialized"),
    ],
    ids=["none", "new", "active", "scaled to zero", "KEDA's", "new with KEDA"],
)
def test_nothing_is_said_of(autoscaler: dict[str, Any] | None) -> None:
    assert said(autoscaler) == []
