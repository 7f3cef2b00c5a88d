"""A service that an autoscaler scales, from its spec to what is sent."""

from __future__ import annotations

import pytest

from isvc_operator.kube.objects import DISCOVERY_TTL
from tests.support.builders import a_runtime_body, a_service_body
from tests.support.reconcile_fixture import cluster_with

KEDA = {"serving.kserve.io/autoscalerClass": "keda"}
NONE = {"serving.kserve.io/autoscalerClass": "none"}


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
