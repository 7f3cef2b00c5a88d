"""Autoscalers and PodDisruptionBudgets on a real API server: nothing here scales but the tests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.apiserver import ApiServer
from tests.support.namespace import Namespace, story_service
from tests.support.waiting import eventually

PREDICTOR = "torchserve-predictor"
CLASS = "serving.kserve.io/autoscalerClass"
# KEDA's own has a schema; its controllers are not needed to keep the objects.
SCALED_OBJECTS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "scaledobjects.keda.sh"},
    "spec": {
        "group": "keda.sh",
        "names": {"kind": "ScaledObject", "plural": "scaledobjects", "singular": "scaledobject"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def keda(running_operator: None, apiserver: ApiServer) -> None:
    """KEDA is installed while the operator runs."""
    apiserver.kubectl("apply", "--filename=-", stdin=json.dumps(SCALED_OBJECTS))
    apiserver.kubectl("wait", "--for=condition=Established", "crd/scaledobjects.keda.sh", "--timeout=20s")


@pytest.fixture
def scaled(running_operator: None, namespace: Namespace) -> Namespace:
    """A service that its HorizontalPodAutoscaler has brought to three pods."""
    namespace.apply_story(minReplicas=1, maxReplicas=4)
    namespace.wait_for("horizontalpodautoscaler", PREDICTOR)
    namespace.wait_for("deployment", PREDICTOR)
    namespace.kubectl("scale", "deployment", PREDICTOR, "--replicas=3")
    return namespace


def replicas(namespace: Namespace) -> int:
    return int((namespace.find("deployment", PREDICTOR) or {})["spec"]["replicas"])


def choose(namespace: Namespace, scaler: str) -> None:
    namespace.kubectl("annotate", "--overwrite", "inferenceservice", "torchserve", f"{CLASS}={scaler}")


def test_an_update_keeps_the_pods_of_the_autoscaler(scaled: Namespace) -> None:
    model = {**story_service()["spec"]["predictor"]["model"], "args": ["--debug"]}
    scaled.apply_story(minReplicas=1, maxReplicas=5, model=model)

    def rolled() -> dict[str, Any] | None:
        found = scaled.find("deployment", PREDICTOR) or {}
        return found if "--debug" in found["spec"]["template"]["spec"]["containers"][0]["args"] else None

    assert eventually(rolled, "the new argument is in the template")["spec"]["replicas"] == 3
    assert (scaled.find("horizontalpodautoscaler", PREDICTOR) or {})["spec"]["maxReplicas"] == 5


def test_without_an_autoscaler_the_number_of_pods_is_the_users_again(scaled: Namespace) -> None:
    choose(scaled, "none")

    eventually(lambda: replicas(scaled) == 1, "minReplicas is applied")
    assert scaled.find("horizontalpodautoscaler", PREDICTOR) is None


def test_an_autoscaler_of_the_users_own_finds_the_pods_as_they_are(scaled: Namespace) -> None:
    choose(scaled, "external")

    eventually(lambda: scaled.find("horizontalpodautoscaler", PREDICTOR) is None, "the operator's is gone")
    assert replicas(scaled) == 3


def test_keda_and_kubernetes_take_turns(keda: None, scaled: Namespace) -> None:
    choose(scaled, "keda")

    created = scaled.wait_for("scaledobject", PREDICTOR)
    assert created["spec"]["triggers"] == [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "80"}}]
    assert scaled.find("horizontalpodautoscaler", PREDICTOR) is None
    assert replicas(scaled) == 3

    choose(scaled, "hpa")

    scaled.wait_for("horizontalpodautoscaler", PREDICTOR)
    eventually(lambda: scaled.find("scaledobject", PREDICTOR) is None, "the ScaledObject is gone")
    assert replicas(scaled) == 3


def long_ready(namespace: Namespace) -> None:
    """The service has been ready for a long time."""
    namespace.play_finished_rollout()
    namespace.wait_for_condition("Ready", "True")
    conditions = (namespace.find("inferenceservice", "torchserve") or {})["status"]["conditions"]
    long_ago = [{**item, "lastTransitionTime": "2020-01-01T00:00:00Z"} for item in conditions]
    namespace.patch_status("inferenceservice", "torchserve", {"conditions": long_ago})


def test_a_cluster_without_metrics_is_named_until_it_has_some(running_operator: None, namespace: Namespace) -> None:
    namespace.apply_story(minReplicas=1, maxReplicas=4)
    namespace.wait_for("horizontalpodautoscaler", PREDICTOR)
    long_ready(namespace)
    told = {"type": "ScalingActive", "lastTransitionTime": "2020-01-01T00:00:00Z", "message": "unable to get metrics"}
    inactive = {**told, "status": "False", "reason": "FailedGetResourceMetric"}
    counts = {"currentReplicas": 1, "desiredReplicas": 1}
    namespace.patch_status("horizontalpodautoscaler", PREDICTOR, {**counts, "conditions": [inactive]})

    message = namespace.wait_for_condition("AutoscalerProblem", "True", "ScalingInactive")["message"]
    assert "FailedGetResourceMetric: unable to get metrics; kubectl top pods tells" in message
    assert namespace.condition("Ready")["status"] == "True"

    active = {**told, "status": "True", "reason": "ValidMetricFound"}
    namespace.patch_status("horizontalpodautoscaler", PREDICTOR, {**counts, "conditions": [active]})
    eventually(lambda: not namespace.condition("AutoscalerProblem"), "the condition is gone")


def test_a_scaled_object_that_keda_refuses_is_named_until_it_takes_it(keda: None, scaled: Namespace) -> None:
    choose(scaled, "keda")
    scaled.wait_for("scaledobject", PREDICTOR)

    def keda_says(status: str, reason: str) -> None:
        patch = {"status": {"conditions": [{"type": "Ready", "status": status, "reason": reason, "message": "so"}]}}
        scaled.kubectl("patch", "scaledobject", PREDICTOR, "--type=merge", f"--patch={json.dumps(patch)}")

    keda_says("False", "ScaledObjectCheckFailed")
    message = scaled.wait_for_condition("AutoscalerProblem", "True", "ScaledObjectNotReady")["message"]
    assert "ScaledObjectCheckFailed: so; correct what KEDA names" in message

    keda_says("True", "ScaledObjectReady")
    eventually(lambda: not scaled.condition("AutoscalerProblem"), "the condition is gone")


def test_a_budget_of_the_users_own_replaces_the_operators(running_operator: None, namespace: Namespace) -> None:
    namespace.apply_story(minReplicas=2)
    namespace.wait_for("poddisruptionbudget", PREDICTOR)
    selector = {"matchLabels": {"serving.kserve.io/inferenceservice": "torchserve"}}
    mine = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "mine"},
            "spec": {"minAvailable": 1, "selector": selector}}  # fmt: skip

    namespace.kubectl("create", "--filename=-", stdin=json.dumps(mine))

    eventually(lambda: namespace.find("poddisruptionbudget", PREDICTOR) is None, "no pod has two budgets")

    namespace.kubectl("delete", "poddisruptionbudget", "mine")

    namespace.wait_for("poddisruptionbudget", PREDICTOR)
