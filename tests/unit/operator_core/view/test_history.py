"""The history of a service: from apply to Ready on one time line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from isvc.limits import SEEN_MOMENTS
from isvc.view.history import history_of
from isvc.view.shapes import well_formed
from isvc.view.source import Related
from isvc.view.values import Moment
from tests.support.builders import NOW, a_container, a_pod, a_ready_pod, a_service_body, an_initializer, ended
from tests.support.related_objects import an_event

POD = "Pod/torchserve-predictor-1-a"


def at(second: int) -> str:
    return f"2026-01-01T12:00:{second:02}Z"


def a_start() -> Related:
    conditions = [
        {"type": "Ready", "status": "True", "lastTransitionTime": at(9)},
        {"type": "PredictorReady", "status": "True", "reason": "NewReplicaSetAvailable", "lastTransitionTime": at(9)},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "lastTransitionTime": at(9)},
        {"type": "Stopped", "status": "False", "lastTransitionTime": at(1)},
    ]
    service = a_service_body(status={"conditions": conditions})
    service["metadata"]["creationTimestamp"] = at(0)
    copied = ended(0)["terminated"] | {"startedAt": at(3), "finishedAt": at(5)}
    pod = a_ready_pod(
        created=at(1),
        initializer=an_initializer({"terminated": copied}),
        containers=[a_container(state={"running": {"startedAt": at(6)}})],
        conditions=[
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(2)},
            {"type": "Initialized", "status": "True", "lastTransitionTime": at(5)},
        ],
    )
    pod["status"]["conditions"][0]["lastTransitionTime"] = at(8)
    events = [
        an_event("Scheduled", "assigned to node-1", at=at(2)),
        an_event("Pulled", "Container image is present", at=at(6)),
        an_event("LoadingModel", "43 %", about="InferenceService/torchserve", at=at(4)),
    ]
    return well_formed(Related(service=service, pods=[pod], events=events))


def lines(moments: list[Moment]) -> list[tuple[str, str, str]]:
    return [(moment.at[-3:-1], moment.about, moment.reason) for moment in moments]


def test_a_start_is_told_in_its_order() -> None:
    assert lines(history_of(a_start())) == [
        ("00", "InferenceService/torchserve", "Created"),
        ("01", POD, "Created"),
        ("02", POD, "Scheduled"),
        ("03", f"{POD} storage-initializer", "Started"),
        ("04", "InferenceService/torchserve", "LoadingModel"),
        ("05", f"{POD} storage-initializer", "Completed"),
        ("05", POD, "Initialized"),
        ("06", POD, "Pulled"),
        ("06", f"{POD} kserve-container", "Started"),
        ("08", POD, "Ready"),
        ("09", "PredictorReady", "NewReplicaSetAvailable"),
        ("09", "InferenceService/torchserve", "Ready"),
    ]


def test_a_crash_is_told_with_its_exit_code_and_what_came_before_it() -> None:
    before = ended(4, "no such layer")["terminated"] | {"startedAt": at(1), "finishedAt": at(2)}
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    pod = a_pod(created=at(0), containers=[a_container(state=state, before={"terminated": before})])

    moments = history_of(well_formed(Related(service=a_service_body(), pods=[pod])))

    assert [(item.reason, item.message, item.warning) for item in moments] == [
        ("Created", "", False),
        ("Started", "", False),
        ("Error", "exit code 4: no such layer", True),
    ]


def test_a_change_of_the_service_is_told_with_who_made_it() -> None:
    def entry(manager: str, time: str, **more: Any) -> dict[str, Any]:
        return {"manager": manager, "operation": "Update", "time": time, **more}

    service = a_service_body()
    service["metadata"] |= {
        "creationTimestamp": at(0),
        "managedFields": [
            entry("kubectl-create", at(0)),
            entry("kubectl-edit", at(5)),
            entry("isvc-operator", at(6)),
            entry("isvc-operator", at(7), subresource="status"),
        ],
    }

    moments = history_of(well_formed(Related(service=service)))

    assert [(item.at, item.reason, item.message) for item in moments] == [
        (at(0), "Created", ""),
        (at(5), "Changed", "by kubectl-edit"),
    ]


def test_an_event_that_occurred_often_is_told_once_with_its_count() -> None:
    event = {**an_event("BackOff", "restarting", type_="Warning"), "count": 12, "lastTimestamp": NOW}

    moment = history_of(well_formed(Related(service=a_service_body(), events=[event])))[-1]

    assert (moment.at, moment.reason, moment.count, moment.warning) == (NOW, "BackOff", 12, True)


def test_times_of_every_precision_are_in_order_and_what_has_none_is_left_out() -> None:
    times = ["2026-01-01T12:00:01Z", "2026-01-01T12:00:01.500000Z", "2026-01-01T14:00:00+02:00", "soon", ""]
    events = [
        {**an_event("E", str(index)), "lastTimestamp": text, "firstTimestamp": ""} for index, text in enumerate(times)
    ]

    moments = history_of(well_formed(Related(service=a_service_body(), events=events)))

    assert [item.message for item in moments] == ["2", "0", "1"]


def test_only_the_last_moments_are_told() -> None:
    events = [an_event("E", str(number), at=at(number % 60)) for number in range(SEEN_MOMENTS + 100)]
    related = replace(a_start(), events=events)

    moments = history_of(well_formed(related))

    assert len(moments) == SEEN_MOMENTS
    assert moments[-1].at == at(59)
