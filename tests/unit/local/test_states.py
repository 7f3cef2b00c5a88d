"""The status of a pod, as a kubelet writes it, from the statuses of its containers."""

from __future__ import annotations

from typing import Any

from isvc.run.states import ContainerStatus, pod_status

CREATED, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"


def new() -> tuple[ContainerStatus, ContainerStatus]:
    return ContainerStatus("storage-initializer", "i:1"), ContainerStatus("kserve-container", "s:1")


def serving() -> tuple[ContainerStatus, ContainerStatus]:
    init, server = new()
    init.run(CREATED)
    init.end(0, "Completed", "", at=LATER, process=6)
    server.run(LATER)
    server.started = server.ready = True
    return init, server


def status(containers: tuple[ContainerStatus, ContainerStatus], before: dict[str, Any], now: str) -> dict[str, Any]:
    init, server = containers
    return pod_status([init], [server], before, now)


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {item["type"]: (item["status"], item["lastTransitionTime"]) for item in status["conditions"]}


def test_of_a_new_pod_nothing_is_started() -> None:
    found = status(new(), {}, CREATED)

    assert found["phase"] == "Pending"
    assert [item["state"] for item in (*found["initContainerStatuses"], *found["containerStatuses"])] == [
        {"waiting": {"reason": "PodInitializing"}}
    ] * 2
    assert found["conditions"][1] == {
        "type": "Initialized",
        "status": "False",
        "lastTransitionTime": CREATED,
        "reason": "ContainersNotInitialized",
        "message": "containers with incomplete status: [storage-initializer]",
    }


def test_a_pod_that_serves_is_ready_since_its_server_is() -> None:
    found = status(serving(), status(new(), {}, CREATED), LATER)

    assert found["phase"] == "Running"
    assert conditions(found) == {
        "PodScheduled": ("True", CREATED),
        "Initialized": ("True", LATER),
        "ContainersReady": ("True", LATER),
        "Ready": ("True", LATER),
    }
    assert found["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert found["containerStatuses"] == [
        {
            "name": "kserve-container",
            "image": "s:1",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": LATER}},
            "lastState": {},
        }
    ]


def test_a_container_that_waits_for_its_next_start_says_how_it_ended_and_counts_restarts() -> None:
    init, server = serving()
    server.end(3, "Error", "no weights", at=LATER, process=7)
    server.wait("CrashLoopBackOff", "back-off 10s")

    (found,) = status((init, server), {}, LATER)["containerStatuses"]
    last = {
        "terminated": {
            "exitCode": 3,
            "reason": "Error",
            "startedAt": LATER,
            "finishedAt": LATER,
            "containerID": "process://7",
            "message": "no weights",
        }
    }
    assert (found["state"], found["lastState"], found["restartCount"], found["ready"]) == (
        {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        last,
        0,
        False,
    )
    server.run(LATER)
    server.end(4, "Error", "", at=LATER, process=8)
    server.run(LATER)
    (found,) = status((init, server), {}, LATER)["containerStatuses"]
    assert (found["restartCount"], found["lastState"]["terminated"]["exitCode"]) == (2, 4)
