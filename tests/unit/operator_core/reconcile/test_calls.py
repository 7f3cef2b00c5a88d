"""The requests that it takes to reconcile a service."""

from __future__ import annotations

import pytest

from isvc_operator.api.names import ANNOTATION_INPUTS, ANNOTATION_OWN_INPUTS, ANNOTATION_RENDERED
from isvc_operator.manifests import annotations_of
from tests.support.builders import EARLIER, NAMESPACE, NOW, a_ready_pod, a_service_body
from tests.support.reconcile_fixture import KEY, STATUS, Cluster, first_update


async def test_a_reconcile_reads_its_own_writes_before_the_watches_tell_them(cluster: Cluster) -> None:
    await cluster.reconcile()
    before = len(cluster.api.calls)

    await cluster.reconciler.reconcile(KEY)

    assert cluster.calls_since(before) == []


async def test_readiness_is_one_write_of_what_changed_of_the_status_and_one_event(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_ready_pod())
    cluster.clock.time = NOW

    assert await cluster.reconcile() == [STATUS, "POST events"]

    assert cluster.condition("Ready") == {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
    assert cluster.condition("IngressReady")["lastTransitionTime"] == EARLIER
    assert cluster.service["status"]["observedGeneration"] == 1
    assert cluster.api.events[-1]["reason"] == "InferenceServiceReady"
    patch = cluster.api.calls[-2].body or {}
    assert sorted(patch["status"]) == ["conditions", "modelStatus"]
    assert "lastFailureInfo" not in patch["status"]["modelStatus"]


@pytest.mark.parametrize("time", [NOW, "1970-01-01T00:00:00Z", "2106-02-07T06:28:15Z"], ids=["later", "back", "far"])
async def test_time_alone_changes_nothing_wherever_the_clock_is_set(time: str, serving: Cluster) -> None:
    before = serving.service
    serving.clock.time = time

    assert await serving.reconcile() == []
    serving.api.remove("Deployment", NAMESPACE, "torchserve-predictor")
    await serving.settle()
    serving.roll_out(a_ready_pod())
    await serving.settle()

    kept = {item["type"]: item["lastTransitionTime"] for item in before["status"]["conditions"]}
    told = {item["type"]: item["lastTransitionTime"] for item in serving.service["status"]["conditions"]}
    assert serving.condition("Ready")["status"] == "True"
    assert {told[kind] for kind in told} <= {time, *kept.values()}


async def test_a_change_of_the_spec_applies_the_child_it_concerns(serving: Cluster) -> None:
    serving.edit_service(model={"args": ["--debug"]})

    calls = [*first_update("deployments/torchserve-predictor"), "POST events", STATUS, "POST events"]
    assert await serving.reconcile() == calls

    assert serving.child("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"] == ["--debug"]
    assert serving.service["status"]["observedGeneration"] == 2
    assert serving.condition("Ready")["status"] == "Unknown"


async def test_a_change_that_no_child_shows_is_noted_and_writes_the_generation(serving: Cluster) -> None:
    before = serving.child("Deployment")
    serving.edit_service(model={"modelFormat": {"name": "pytorch", "version": "1"}})

    assert await serving.reconcile() == [*first_update("deployments/torchserve-predictor"), STATUS]

    after = serving.child("Deployment")
    noted = {name for name, value in after["metadata"]["annotations"].items() if value != annotations_of(before)[name]}
    assert (noted, after["spec"]) == ({ANNOTATION_INPUTS, ANNOTATION_OWN_INPUTS, ANNOTATION_RENDERED}, before["spec"])

    assert (serving.api.calls[-1].body or {})["status"] == {"observedGeneration": 2}


async def test_a_deleted_service_needs_nothing(serving: Cluster) -> None:
    serving.api.remove("InferenceService", *KEY)

    assert await serving.reconcile() == []


async def test_a_service_that_is_being_deleted_needs_nothing(serving: Cluster) -> None:
    body = serving.service
    serving.api.put({**body, "metadata": {**body["metadata"], "deletionTimestamp": NOW}})

    assert await serving.reconcile() == []


async def test_a_service_made_anew_under_its_name_gets_children_of_its_own(serving: Cluster) -> None:
    serving.api.remove("InferenceService", *KEY)
    serving.api.put(a_service_body(uid="another-uid"))

    await serving.reconcile()

    owners = [
        serving.child(kind)["metadata"]["ownerReferences"][0]["uid"] for kind in ("Deployment", "Service", "Ingress")
    ]
    assert owners == ["another-uid"] * 3
