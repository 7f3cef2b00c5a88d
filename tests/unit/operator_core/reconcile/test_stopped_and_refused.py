"""Services that are stopped, and those that cannot be served as written."""

from __future__ import annotations

import pytest

from tests.support.builders import NOW, a_crashed_pod, a_runtime_body, a_service_body
from tests.support.reconcile_fixture import LOG, STATUS, Cluster, cluster_with


async def test_a_stopped_service_has_no_children_and_stays_stopped_without_a_call(serving: Cluster) -> None:
    serving.edit_service(annotations={"serving.kserve.io/stop": "true"})

    assert await serving.reconcile() == [
        "DELETE deployments/torchserve-predictor",
        "DELETE ingresses/torchserve",
        "DELETE services/torchserve-predictor",
        STATUS,
        "POST events",
    ]
    assert serving.condition("Stopped")["status"] == "True"
    assert sorted(serving.service["status"]) == ["conditions", "deploymentMode", "observedGeneration"]
    assert await serving.reconcile() == []


async def test_the_pods_that_a_stopped_service_leaves_behind_are_no_failure(serving: Cluster) -> None:
    serving.edit_service(annotations={"serving.kserve.io/stop": "true"})
    serving.api.put(a_crashed_pod())

    assert LOG not in await serving.reconcile()

    assert serving.condition("PredictorReady")["reason"] == "Stopped"


async def test_a_spec_that_cannot_be_served_leaves_what_runs_alone(serving: Cluster) -> None:
    running_children = [serving.child(kind) for kind in ("Deployment", "Service", "Ingress")]
    serving.edit_service(model={"modelFormat": {"name": "pytorsh"}})

    assert await serving.reconcile() == [STATUS, "POST events"]

    assert [serving.child(kind) for kind in ("Deployment", "Service", "Ingress")] == running_children
    assert serving.condition("PredictorReady")["reason"] == "NoSupportingRuntime"
    assert serving.service["status"]["modelStatus"]["transitionStatus"] == "InvalidSpec"
    assert serving.api.events[-1]["type"] == "Warning"
    assert "no runtime serves model format 'pytorsh'" in serving.api.events[-1]["message"]


@pytest.mark.parametrize("uri", ["pvc:/leeway", "s4://leeway"], ids=["before the steps", "in a step"])
async def test_two_faults_that_do_not_depend_on_each_other_are_said_at_once(serving: Cluster, uri: str) -> None:
    fault = {"modelFormat": {"name": "pytorch"}, "storageUri": uri}
    serving.edit_service(model=fault)
    await serving.reconcile()
    alone = serving.condition("Ready")["message"]
    serving.edit_service(model=fault | {"resources": {"requests": {"memory": "4Gi"}, "limits": {"memory": "2Gi"}}})

    await serving.reconcile()

    assert uri in alone
    assert serving.condition("Ready")["message"] == (
        f"{alone}. Also: spec.predictor.model.resources: requests.memory 4Gi is more than limits.memory 2Gi; "
        "correct one of them"
    )


async def test_a_spec_that_was_corrected_recovers_without_touching_what_runs(serving: Cluster) -> None:
    serving.edit_service(model={"modelFormat": {"name": "pytorsh"}})
    await serving.reconcile()
    serving.edit_service()

    assert await serving.reconcile() == [STATUS, "POST events"]

    assert serving.condition("Ready")["status"] == "True"
    assert "lastFailureInfo" not in serving.service["status"]["modelStatus"]


async def test_what_the_service_and_its_runtime_do_not_know_or_may_not_read_is_named_in_one_condition() -> None:
    cluster = cluster_with(a_service_body(predictor={"timeout": 5}), a_runtime_body(containrs=[]))

    await cluster.reconcile()

    assert cluster.condition("FieldsIgnored")["message"] == (
        "Ignored: spec.predictor.timeout (the server of runtime kserve-torchserve gets REQUEST_TIMEOUT, which its "
        "annotation isvc-operator.io/settings does not list); ClusterServingRuntime kserve-torchserve: spec.containrs "
        "(did you mean containers?)"
    )


async def test_an_invalid_body_is_reported_in_a_condition() -> None:
    cluster = cluster_with(a_service_body(predictor={"minReplicas": "three"}), a_runtime_body())

    assert await cluster.reconcile() == [STATUS, "POST events"]

    ready = cluster.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "InvalidPredictorSpec")
    assert "spec.predictor.minReplicas: " in ready["message"]
    cluster.clock.time = NOW
    assert await cluster.reconcile() == []


async def test_a_service_that_is_edited_into_an_invalid_one_still_has_its_copies(serving: Cluster) -> None:
    serving.edit_service(model={"modelFormat": {"name": "pytroch"}})

    await serving.reconcile()

    assert serving.condition("Ready")["status"] == "False"
    assert serving.service["status"]["modelStatus"]["copies"] == {"failedCopies": 0, "totalCopies": 1}
