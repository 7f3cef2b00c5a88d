"""Children that others change, delete or create whenever they are restored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from isvc_operator.kube.requests import ApiRequest
from isvc_operator.limits import NOT_KEPT_SECONDS, RESTORE_SECONDS
from tests.support.builders import NAMESPACE, a_runtime_body
from tests.support.fakes import FakeKubeApi
from tests.support.reconcile_fixture import STATUS, Cluster, first_update, watched

CREATE = "POST services/torchserve-predictor"
APPLY = "PATCH services/torchserve-predictor"
LOOK = "GET services/torchserve-predictor"  # to see who has changed it
FIRST_APPLY = first_update("services/torchserve-predictor")
SELECTOR = {"app": "theirs"}
REWRITER = {
    "manager": "rewriter", "operation": "Update", "time": "2026-01-01T00:00:00Z",
    "fieldsV1": {"f:spec": {"f:selector": {}}},
}  # fmt: skip


def rewrite(cluster: Cluster) -> None:
    """What the other controller does whenever it sees its field changed."""
    service = cluster.child("Service")
    if service["spec"]["selector"] != SELECTOR:
        metadata = {**service["metadata"], "managedFields": [REWRITER]}
        cluster.api.put({**service, "metadata": metadata, "spec": {**service["spec"], "selector": SELECTOR}})


async def fight(cluster: Cluster, seconds: float) -> list[float]:
    """Return when the operator restores the child, while the other client overwrites it at once."""
    restores, end = [], cluster.seconds.passed + seconds
    while cluster.seconds.passed < end:
        rewrite(cluster)
        calls = await cluster.reconcile()
        if APPLY in calls:
            restores.append(cluster.seconds.passed)
        else:
            cluster.seconds.passed += cluster.again or RESTORE_SECONDS
    return restores


async def test_edits_by_hand_are_restored_at_once(serving: Cluster) -> None:
    for events in (["POST events"], [], []):
        rewrite(serving)
        assert await serving.reconcile() == [LOOK, APPLY, *events]
    assert serving.again is None
    assert serving.reconciler.contested() == 0


async def test_a_child_that_another_client_changes_each_time_is_restored_ever_more_seldom(serving: Cluster) -> None:
    restores = await fight(serving, 1500.0)

    first = restores[0]
    assert [at - first for at in restores] == [0, 0, 0, 2, 6, 14, 30, 62, 126, 254, 510, 810, 1110, 1410]


async def test_the_condition_names_the_field_and_the_manager_and_what_to_do(serving: Cluster) -> None:
    await fight(serving, 10.0)
    rewrite(serving)
    await serving.reconcile()

    condition = serving.condition("SpecNotApplied")
    assert (condition["status"], condition["severity"], condition["reason"]) == ("True", "Warning", "ChangedByOthers")
    assert condition["message"] == (
        "Service torchserve-predictor: rewriter changes spec.selector.app, which is restored at growing intervals. "
        "Stop it from doing so, or write its value in the InferenceService or its runtime"
    )
    assert serving.condition("Ready")["status"] == "True"
    assert "SpecNotApplied" in serving.condition("Ready")["message"]
    assert serving.reconciler.contested() == 1


async def test_a_fight_writes_the_status_once(serving: Cluster) -> None:
    before = len(serving.api.calls)

    await fight(serving, 2000.0)

    assert serving.calls_since(before).count(STATUS) == 1


async def test_the_child_is_restored_and_the_condition_goes_when_the_other_client_stops(serving: Cluster) -> None:
    await fight(serving, 60.0)  # the last wait has passed

    assert await serving.reconcile() == [LOOK, APPLY]
    assert serving.child("Service")["spec"]["selector"] != SELECTOR
    serving.seconds.passed += serving.again or 0
    assert await serving.reconcile() == [STATUS]
    assert [item["type"] for item in serving.service["status"]["conditions"] if item["type"] == "SpecNotApplied"] == []
    assert serving.again is None


async def test_after_a_long_peace_an_edit_by_hand_is_restored_at_once_again(serving: Cluster) -> None:
    await fight(serving, 60.0)
    serving.seconds.passed += 3 * RESTORE_SECONDS
    await serving.settle()
    serving.seconds.passed += 3 * RESTORE_SECONDS

    for _ in range(3):
        rewrite(serving)
        assert APPLY in await serving.reconcile()


async def test_a_change_of_the_spec_is_applied_in_the_midst_of_a_fight(serving: Cluster) -> None:
    await fight(serving, 60.0)
    rewrite(serving)
    serving.edit_service(labels={"team": "a"})

    assert APPLY in await serving.reconcile()

    assert serving.child("Service")["metadata"]["labels"]["team"] == "a"


async def test_a_child_that_is_deleted_each_time_is_created_ever_more_seldom(serving: Cluster) -> None:
    creations = 0
    for _ in range(40):
        if serving.api.get("Service", NAMESPACE, "torchserve-predictor"):
            serving.api.remove("Service", NAMESPACE, "torchserve-predictor")
        creations += CREATE in await serving.reconcile()
        serving.seconds.passed += 1.0

    assert creations == 7  # after 0, 1, 2 (then 2, 4, 8, 16 seconds later)
    condition = serving.condition("SpecNotApplied")
    assert condition["reason"] == "ChangedByOthers"
    assert condition["message"].startswith("Service torchserve-predictor is deleted again and again")


class Rewriting(FakeKubeApi):
    """An API server with a webhook that sets the selector of each Service."""

    async def send(self, request: ApiRequest) -> str:
        body: dict[str, Any] = dict(request.body or {})
        if body.get("kind") == "Service":
            body["spec"] = {**body["spec"], "selector": SELECTOR}
            request = replace(request, body=body)
        return await super().send(request)


async def test_what_the_api_server_does_not_keep_is_applied_once_an_hour(cluster: Cluster) -> None:
    cluster.api.__class__ = Rewriting
    await cluster.reconcile()
    condition = cluster.condition("SpecNotApplied")
    assert condition["reason"] == "FieldsNotKept"
    assert condition["message"].startswith(
        "Service torchserve-predictor: the API server does not keep spec.selector.app as applied. "
    )
    assert cluster.again is not None
    assert cluster.again == NOT_KEPT_SECONDS

    for _ in range(3):
        assert await cluster.reconcile() == []
    cluster.seconds.passed += NOT_KEPT_SECONDS
    assert await cluster.reconcile() == FIRST_APPLY
    assert await cluster.reconcile() == []
    assert cluster.reconciler.contested() == 0


async def test_what_is_kept_again_ends_the_condition(cluster: Cluster) -> None:
    cluster.api.__class__ = Rewriting
    await cluster.reconcile()
    cluster.api.__class__ = FakeKubeApi

    cluster.seconds.passed += NOT_KEPT_SECONDS
    assert await cluster.reconcile() == [*FIRST_APPLY, STATUS]
    assert await cluster.reconcile() == []


async def test_another_field_of_such_a_child_is_still_restored(cluster: Cluster) -> None:
    cluster.api.__class__ = Rewriting
    await cluster.reconcile()
    service = cluster.child("Service")
    cluster.api.put({**service, "spec": {**service["spec"], "ports": []}})

    assert APPLY in await cluster.reconcile()

    assert cluster.child("Service")["spec"]["ports"]


async def test_a_restart_applies_once_what_is_not_kept(cluster: Cluster) -> None:
    cluster.api.__class__ = Rewriting
    await cluster.reconcile()
    restarted = watched(cluster.api, cluster.clock, a_runtime_body())

    assert await restarted.reconcile() == [LOOK, *FIRST_APPLY]
    assert await restarted.reconcile() == []
