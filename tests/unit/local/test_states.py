"""The status of a pod, as a kubelet writes it, from the states of its containers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from isvc.run.states import Ended, PodState, initial_state, pod_status

CREATED, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"
SPEC = {
    "initContainers": [{"name": "storage-initializer", "image": "i:1"}],
    "containers": [{"name": "kserve-container", "image": "s:1"}],
}


def ended(code: int, id_: int = 7) -> Ended:
    return Ended(code, "Error" if code else "Completed", "no weights" if code else "", CREATED, LATER, id_)


def serving() -> PodState:
    state = initial_state(SPEC)
    state = state.having(state.of("storage-initializer").runs(CREATED, 6).ends(ended(0, 6)))
    return state.having(replace(state.of("kserve-container").runs(LATER, 7), started=True, ready=True))


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {item["type"]: (item["status"], item["lastTransitionTime"]) for item in status["conditions"]}


def test_of_a_new_pod_nothing_is_started() -> None:
    status = pod_status(initial_state(SPEC), {}, CREATED, CREATED)

    assert status["phase"] == "Pending"
    assert [item["state"] for item in (*status["initContainerStatuses"], *status["containerStatuses"])] == [
        {"waiting": {"reason": "PodInitializing"}}
    ] * 2
    assert status["conditions"][1] == {
        "type": "Initialized",
        "status": "False",
        "lastTransitionTime": CREATED,
        "reason": "ContainersNotInitialized",
        "message": "containers with incomplete status: [storage-initializer]",
    }


def test_a_pod_that_serves_is_ready_since_its_server_is() -> None:
    before = pod_status(initial_state(SPEC), {}, CREATED, CREATED)

    status = pod_status(serving(), before, CREATED, LATER)

    assert status["phase"] == "Running"
    assert conditions(status) == {
        "PodScheduled": ("True", CREATED),
        "Initialized": ("True", LATER),
        "ContainersReady": ("True", LATER),
        "Ready": ("True", LATER),
    }
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert status["containerStatuses"] == [
        {
            "name": "kserve-container",
            "image": "s:1",
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": LATER}},
            "lastState": {},
            "containerID": "process://7",
        }
    ]


def test_a_condition_that_stays_keeps_its_time() -> None:
    before = pod_status(serving(), {}, CREATED, CREATED)

    assert conditions(pod_status(serving(), before, CREATED, LATER)) == conditions(before)


def test_a_container_that_waits_for_its_next_start_says_how_it_ended_and_counts_restarts() -> None:
    crashed = serving().of("kserve-container").ends(ended(3)).waits("CrashLoopBackOff", "back-off 10s")
    again = crashed.runs(LATER, 8).ends(ended(4, 8)).runs(LATER, 9)

    (status,) = pod_status(serving().having(crashed), {}, CREATED, LATER)["containerStatuses"]
    last = {
        "terminated": {
            "exitCode": 3,
            "reason": "Error",
            "startedAt": CREATED,
            "finishedAt": LATER,
            "containerID": "process://7",
            "message": "no weights",
        }
    }
    assert (status["state"], status["lastState"], status["restartCount"], status["ready"]) == (
        {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        last,
        0,
        False,
    )
    (status,) = pod_status(serving().having(again), {}, CREATED, LATER)["containerStatuses"]
    assert (status["restartCount"], status["lastState"]["terminated"]["exitCode"]) == (2, 4)
