"""A service that an autoscaler scales, from its spec to what is sent."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.kube.objects import DISCOVERY_TTL
from tests.support.builders import a_ready_pod, a_runtime_body, a_service_body
from tests.support.reconcile_fixture import Cluster, cluster_with

KEDA = {"serving.kserve.io/autoscalerClass": "keda"}
NONE = {"serving.kserve.io/autoscalerClass": "none"}
PREDICTOR = "torchserve-predictor"


async def a_scaled_service(live: int, **fields: Any) -> Cluster:
    """A service with a HorizontalPodAutoscaler that has brought it to ``live`` pods."""
    cluster = cluster_with(a_service_body(predictor={"maxReplicas": 4}, **fields), a_runtime_body())
    await cluster.settle()
    deployment = cluster.child("Deployment")
    cluster.api.put({**deployment, "spec": {**deployment["spec"], "replicas": live}})
    return cluster


async def test_a_stopped_service_has_no_autoscaler_and_no_budget() -> None:
    cluster = await a_scaled_service(live=3)

    cluster.edit_service(predictor={"maxReplicas": 4}, annotations={"serving.kserve.io/stop": "true"})
    await cluster.reconcile()

    assert [path for path in cluster.api.objects if PREDICTOR in path] == []


async def test_a_service_stays_ready_while_pods_are_added_for_the_load() -> None:
    cluster = await a_scaled_service(live=4)

    cluster.roll_out(a_ready_pod(), updated=4, total=4, available=1, enough=False)
    await cluster.reconcile()

    assert cluster.condition("PredictorReady")["status"] == "True"


async def test_a_scaled_object_is_made_once_keda_is_installed() -> None:
    cluster = cluster_with(a_service_body(predictor={"maxReplicas": 4}, annotations=KEDA), a_runtime_body())
    await cluster.settle()

    said = cluster.condition("FieldsIgnored")["message"]
    assert "the cluster has no KEDA, so no ScaledObject is made" in said
    assert cluster.again == 300.0

    cluster.api.objects["/apis/keda.sh/v1alpha1"] = {"kind": "APIResourceList", "metadata": {}}
    cluster.seconds.passed += DISCOVERY_TTL
    await cluster.settle()

    assert cluster.child("ScaledObject")["spec"]["maxReplicaCount"] == 4
    assert all(item["type"] != "FieldsIgnored" for item in cluster.service["status"]["conditions"])


@pytest.mark.parametrize("annotations", [{}, NONE])
async def test_keda_is_looked_for_only_by_services_that_ask_for_it(annotations: dict[str, str]) -> None:
    cluster = cluster_with(a_service_body(predictor={"maxReplicas": 4}, annotations=annotations), a_runtime_body())
    await cluster.settle()

    assert not any("keda" in call.path for call in cluster.api.calls)
