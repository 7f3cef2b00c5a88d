"""Pods that fail, their logs, and how far a model has come."""

from __future__ import annotations

from typing import Any

from tests.support.builders import (
    NOW,
    a_container,
    a_crashed_pod,
    a_pod,
    a_ready_pod,
    an_initializer,
    ended,
    running,
    waiting,
)
from tests.support.reconcile_fixture import LOG, POD, STATUS, Cluster


async def test_a_crash_is_reported_with_its_last_log_lines(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_crashed_pod(), available=0, progressing="ReplicaSetUpdated")
    cluster.api.logs[f"{POD}/kserve-container"] = "Traceback …\nValueError: no such layer\n"

    assert await cluster.reconcile() == [LOG, STATUS, "POST events"]

    assert cluster.condition("PredictorReady")["message"] == (
        f"pod {POD}, container kserve-container ended with exit code 1: ValueError: no such layer\n"
        "Last log lines:\n| Traceback …\n| ValueError: no such layer"
    )
    assert cluster.api.events[-1]["reason"] == "ServerFailed"


async def test_a_log_is_read_once_for_each_instance_of_a_container(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.api.logs.update({f"{POD}/kserve-container": "first", f"{POD}/kserve-container/previous": "second"})

    def server(**state: Any) -> dict[str, Any]:
        return a_pod(phase="Running", initializer=an_initializer(), containers=[a_container(**state)])

    pods = {
        "ends": server(state=ended(1, instance="one")),
        "waits": server(state=waiting("CrashLoopBackOff"), before=ended(1, instance="one")),
        "runs again": server(state=running(), before=ended(1, instance="one")),
        "ends again": server(state=waiting("CrashLoopBackOff"), before=ended(1, instance="two")),
    }
    calls = {}
    for event, pod in pods.items():
        cluster.roll_out(pod, available=0, progressing="ReplicaSetUpdated")
        calls[event] = await cluster.reconcile()

    assert calls == {"ends": [LOG, STATUS, "POST events"], "waits": [], "runs again": [], "ends again": [LOG, STATUS]}


async def test_a_log_that_cannot_be_read_leaves_the_rest_of_the_story(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_crashed_pod(), available=0, progressing="ReplicaSetUpdated")

    assert await cluster.reconcile() == [LOG, LOG, STATUS, "POST events"]  # the previous one, too

    assert cluster.condition("PredictorReady")["message"] == (
        f"pod {POD}, container kserve-container ended with exit code 1: ValueError: no such layer"
    )


async def test_a_service_that_recovers_forgets_the_log(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.api.logs[f"{POD}/kserve-container"] = "boom"
    cluster.roll_out(a_crashed_pod(), available=0, progressing="ReplicaSetUpdated")
    await cluster.reconcile()
    cluster.roll_out(a_ready_pod())

    assert await cluster.reconcile() == [STATUS, "POST events"]
    cluster.roll_out(a_crashed_pod(), available=0)

    assert await cluster.reconcile() == [LOG, STATUS, "POST events"]


async def test_a_pod_of_the_predictor_before_hides_no_crash_of_one_with_another_name(serving: Cluster) -> None:
    serving.edit_service(predictor={"name": "v2"})
    serving.api.put(a_crashed_pod("torchserve-v2-predictor-1-a", app="isvc.torchserve-v2-predictor"))
    serving.api.put(a_ready_pod("torchserve-predictor-1-b", created=NOW))

    await serving.reconcile()

    assert serving.condition("PredictorReady")["reason"] == "ServerFailed"
    assert serving.service["status"]["modelStatus"]["copies"] == {"failedCopies": 1, "totalCopies": 0}


async def test_a_missing_claim_is_reported_without_reading_a_log(cluster: Cluster) -> None:
    await cluster.reconcile()
    missing = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": 'persistentvolumeclaim "leeway" not found',
    }
    cluster.roll_out(a_pod(node=None, conditions=[missing]), available=0, progressing="ReplicaSetUpdated")

    assert await cluster.reconcile() == [STATUS, "POST events"]

    assert cluster.condition("Ready")["reason"] == "ClaimNotFound"


async def test_progress_is_reported_every_two_seconds_and_without_events(cluster: Cluster) -> None:
    await cluster.reconcile()
    cluster.roll_out(a_pod(initializer=an_initializer(running())), available=0, progressing="ReplicaSetUpdated")
    calls = {}
    for second, line in ((0, "1 %"), (1, "20 %"), (2, "42 % of 4.7 GiB"), (3, "60 %"), (4, "80 % of 4.7 GiB")):
        cluster.seconds.passed = second
        cluster.api.logs[f"{POD}/storage-initializer"] = f" {line}\n"
        calls[second] = await cluster.reconcile()

    assert calls == {0: [], 1: [STATUS, "POST events"], 2: [LOG, STATUS], 3: [], 4: [LOG, STATUS]}
    assert cluster.condition("Ready")["reason"] == "LoadingModel"
    assert cluster.condition("Ready")["message"] == (
        f"pod {POD}: the storage-initializer is copying the model: 80 % of 4.7 GiB (1 of 1 pods updated, 0 available)"
    )
    assert cluster.again == 2.0


async def test_a_stage_that_has_not_lasted_for_a_second_is_not_written(cluster: Cluster) -> None:
    await cluster.reconcile()
    calls = {}
    starting = {"available": 0, "progressing": "ReplicaSetUpdated"}
    for second, pod, rollout in (
        (0.0, a_pod(node=None), starting),
        (0.1, a_pod(), starting),
        (0.9, a_pod(containers=[a_container()]), starting),
        (1.0, a_pod(containers=[a_container()]), starting),
        (1.1, a_ready_pod(), {}),
    ):
        cluster.seconds.passed = second
        cluster.roll_out(pod, **rollout)
        calls[second] = [*await cluster.reconcile(), cluster.condition("Ready").get("reason")]

    written = [STATUS, "POST events"]
    assert calls == {
        0.0: ["WaitingForDeployment"],
        0.1: ["WaitingForDeployment"],
        0.9: ["WaitingForDeployment"],
        1.0: [*written, "StartingServer"],
        1.1: [*written, None],
    }
