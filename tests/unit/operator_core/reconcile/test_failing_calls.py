"""Failures of a reconcile: requests that fail, and services that are deleted meanwhile."""

from __future__ import annotations

import json

import pytest

from isvc_operator.controller.memory import TERMINATING_SECONDS
from isvc_operator.kube.errors import Conflict, KubeError, NamespaceEnding, RequestRefused
from isvc_operator.kube.leader import LeaseLost
from isvc_operator.kube.requests import ApiRequest, path_of
from isvc_operator.manifests import Manifest
from tests.support.builders import NAMESPACE, a_pod, a_ready_pod, a_service_body
from tests.support.reconcile_fixture import FIRST_CALLS, KEY, STATUS, Cluster

CREATION = ("POST", path_of("Deployment", NAMESPACE, "torchserve-predictor"))
UPDATE = ("PATCH", path_of("Deployment", NAMESPACE, "torchserve-predictor"))


async def test_an_apply_that_keeps_failing_writes_the_status_once(cluster: Cluster) -> None:
    cluster.api.failing[CREATION] = RequestRefused(403, "exceeded quota")
    with pytest.raises(RequestRefused):
        await cluster.reconcile()
    before = len(cluster.api.calls)

    with pytest.raises(RequestRefused):
        await cluster.reconcile()

    assert cluster.calls_since(before) == ["POST deployments/torchserve-predictor"]


async def test_the_event_of_our_status_is_known_so_that_a_failure_is_not_tried_again_at_once(
    cluster: Cluster,
) -> None:
    cluster.api.failing[CREATION] = RequestRefused(403, "exceeded quota")
    with pytest.raises(RequestRefused):
        await cluster.reconcile()

    assert cluster.cache.knows(cluster.service)


async def test_the_event_of_a_status_write_without_a_response_is_expected(cluster: Cluster) -> None:
    send, written = cluster.api.send, list[Manifest]()

    async def losing(request: ApiRequest) -> str:
        response = await send(request)
        if request.path.endswith("/status"):
            written.append(json.loads(response))
            raise KubeError(0, "no response")
        return response

    cluster.api.send = losing  # type: ignore[method-assign]
    with pytest.raises(KubeError, match="no response"):
        await cluster.reconcile()

    assert cluster.cache.was_expected(written[0])


async def test_an_api_server_that_is_busy_for_a_moment_is_not_reported(serving: Cluster) -> None:
    before = serving.service
    serving.api.failing[UPDATE] = KubeError(429, "too many requests")
    serving.edit_service(model={"args": ["--debug"]})

    for failures in range(4):
        with pytest.raises(KubeError):
            await serving.reconcile(failures)

    assert serving.service["status"] == before["status"]


@pytest.mark.parametrize("status", [0, 429, 500, 503])
async def test_an_api_server_that_keeps_failing_is_reported(serving: Cluster, status: int) -> None:
    serving.api.failing[UPDATE] = KubeError(status, "overloaded")
    serving.edit_service(model={"args": ["--debug"]})

    with pytest.raises(KubeError):
        await serving.reconcile(failures=4)

    assert serving.condition("Ready")["message"] == "Deployment torchserve-predictor: overloaded"


async def test_an_object_of_someone_else_is_reported_with_what_to_do(cluster: Cluster) -> None:
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "torchserve-predictor", "namespace": NAMESPACE},
    }
    theirs = cluster.api.put({**theirs, "spec": {"ports": []}})

    with pytest.raises(Conflict):
        await cluster.reconcile()

    assert cluster.child("Service") == theirs
    assert cluster.condition("Ready")["message"] == (
        "Service torchserve-predictor exists in namespace models and was not made by this operator "
        "(it has no owner); delete or rename it, or rename the InferenceService"
    )


async def test_a_status_that_cannot_be_written_is_tried_again(cluster: Cluster) -> None:
    status = ("PATCH", path_of("InferenceService", *KEY) + "/status")
    cluster.api.failing[status] = KubeError(503, "overloaded")
    with pytest.raises(KubeError, match="overloaded"):
        await cluster.reconcile()
    cluster.api.failing.clear()

    assert await cluster.reconcile() == [STATUS]


async def test_a_stage_that_cannot_be_written_fails_each_time(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_pod(), available=0, progressing="ReplicaSetUpdated")
    assert await cluster.reconcile() == []
    cluster.seconds.passed = cluster.again or 0.0
    cluster.api.failing["PATCH", path_of("InferenceService", *KEY) + "/status"] = KubeError(503, "overloaded")

    for _ in range(2):  # a success in between would end the backoff
        with pytest.raises(KubeError, match="overloaded"):
            await cluster.reconcile()


async def test_an_event_that_cannot_be_recorded_is_logged_and_does_not_fail_the_reconcile(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_ready_pod())
    cluster.api.failing["POST", path_of("Event", NAMESPACE)] = RequestRefused(403, "exceeded quota")

    assert await cluster.reconcile() == [STATUS, "POST events"]
    assert await cluster.reconcile() == []
    assert "an Event is not recorded: exceeded quota (it says: " in caplog.text


@pytest.mark.parametrize("failures", [0, 9])
async def test_nothing_is_written_for_the_services_of_a_namespace_that_is_being_deleted(
    cluster: Cluster, failures: int
) -> None:
    cluster.api.failing[CREATION] = NamespaceEnding(403, "it is being terminated")

    assert await cluster.reconcile(failures) == FIRST_CALLS[:3]
    assert "status" not in cluster.service
    cluster.edit_service(model={"args": ["--debug"]})
    assert await cluster.reconcile() == []
    assert cluster.again == TERMINATING_SECONDS
    cluster.api.failing.clear()
    cluster.api.remove("InferenceService", *KEY)
    cluster.cache.remove(a_service_body())
    assert await cluster.reconcile() == []
    cluster.api.put(a_service_body(uid="another-uid"))
    assert FIRST_CALLS[0] in await cluster.reconcile()


async def test_an_event_that_a_namespace_refuses_because_it_is_being_deleted_stops_the_writes_too(
    cluster: Cluster,
) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_ready_pod())
    cluster.api.failing["POST", path_of("Event", NAMESPACE)] = NamespaceEnding(403, "it is being terminated")
    await cluster.reconcile()
    cluster.edit_service(model={"args": ["--debug"]})

    assert await cluster.reconcile() == []


async def test_a_child_that_changes_at_that_moment_is_tried_again_and_not_reported(serving: Cluster) -> None:
    before = serving.service
    serving.api.failing[UPDATE] = Conflict(409, "Operation cannot be fulfilled on resourcequotas")
    serving.edit_service(model={"args": ["--debug"]})

    with pytest.raises(Conflict, match=r"^Deployment torchserve-predictor: Operation cannot be fulfilled"):
        await serving.reconcile()
    told = serving.service["status"]
    with pytest.raises(Conflict):
        await serving.reconcile(failures=4)

    assert told == before["status"]
    message = "Deployment torchserve-predictor: Operation cannot be fulfilled on resourcequotas"
    assert serving.condition("Ready")["message"] == message


async def test_a_lease_that_is_lost_in_a_write_is_told_as_such(cluster: Cluster) -> None:
    cluster.api.failing[CREATION] = LeaseLost()

    with pytest.raises(LeaseLost, match=r"^Deployment torchserve-predictor: this replica does not hold the lease"):
        await cluster.reconcile()


async def test_a_service_whose_deletion_no_watch_has_reported_is_no_failure_and_reconciled_once(
    cluster: Cluster,
) -> None:
    cluster.api.feed(cluster.cache)
    cluster.api.remove("InferenceService", *KEY)

    while await cluster.reconciler.reconcile(KEY) == 0:
        pass
    await cluster.reconciler.reconcile(KEY)

    assert cluster.calls_since(0) == FIRST_CALLS


async def test_a_service_made_anew_while_it_is_reconciled_does_not_get_the_status_of_the_one_before(
    serving: Cluster,
) -> None:
    serving.roll_out(available=0, progressing="ReplicaSetUpdated")
    serving.api.feed(serving.cache)
    serving.api.remove("InferenceService", *KEY)
    serving.api.put(a_service_body(uid="another-uid"))

    await serving.reconciler.reconcile(KEY)

    assert "status" not in serving.service
    await serving.reconcile()
    assert serving.condition("Ready")["status"] == "Unknown"
