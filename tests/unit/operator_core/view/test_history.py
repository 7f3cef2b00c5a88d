"""The history of a service: from apply to Ready on one time line."""

from __future__ import annotations

from isvc.limits import SEEN_MOMENTS
from isvc.view.history import history_of
from isvc.view.shapes import well_formed
from isvc.view.source import Related
from tests.support.builders import a_container, a_pod, a_service_body, ended
from tests.support.related_objects import an_event


def at(second: int) -> str:
    return f"2026-01-01T12:00:{second:02}Z"


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


def test_times_of_every_precision_are_in_order_and_what_has_none_is_left_out() -> None:
    times = ["2026-01-01T12:00:01Z", "2026-01-01T12:00:01.500000Z", "2026-01-01T14:00:00+02:00", "soon", ""]
    events = [
        {**an_event("E", str(index)), "lastTimestamp": text, "firstTimestamp": ""} for index, text in enumerate(times)
    ]

    moments = history_of(well_formed(Related(service=a_service_body(), events=events)))

    assert [item.message for item in moments] == ["2", "0", "1"]


def test_within_a_second_what_happened_comes_before_what_is_said_of_it() -> None:
    ends = {"terminated": ended(4)["terminated"] | {"startedAt": at(1), "finishedAt": at(1)}}
    pod = a_pod(created=at(1), containers=[a_container(state={"waiting": {}}, before=ends)])
    service = "InferenceService/torchserve"
    told = [
        ("7", "BackOff", "Pod/torchserve-predictor-1-a"),
        ("10", "ServerFailed", service),
        ("9", "LoadingModel", service),
        ("8", "PreparingPod", service),
        ("6", "RolloutUpdated", service),
        ("5", "Pulled", "Pod/torchserve-predictor-1-a"),
    ]
    events = [an_event(reason, about=about, at=at(1)) for _, reason, about in told]
    for event, (version, _, _) in zip(events, told, strict=True):
        event["metadata"]["resourceVersion"] = version

    moments = history_of(well_formed(Related(service=a_service_body(), pods=[pod], events=events)))

    assert [item.reason for item in moments if item.at == at(1)] == [
        "RolloutUpdated", "Created", "Pulled", "Started", "Error", "BackOff",
        "PreparingPod", "LoadingModel", "ServerFailed",
    ]  # fmt: skip


def test_the_reason_of_a_condition_has_the_time_of_its_event() -> None:
    service = a_service_body()
    condition = {"type": "PredictorReady", "status": "False", "lastTransitionTime": at(1)}
    events = [an_event("StartingServer", "pod 2", about="InferenceService/torchserve", at=at(9))]
    for reason in ("StartingServer", "NotTold"):
        service["status"] = {"conditions": [{**condition, "reason": reason}]}
        moments = history_of(well_formed(Related(service=service, events=events)))

        told = [(item.at, item.reason) for item in moments if item.reason != "Created"]
        assert told == [(at(1), reason)] * (reason == "NotTold") + [(at(9), "StartingServer")]


def test_only_the_last_moments_are_told() -> None:
    events = [an_event("E", str(number), at=at(number % 60)) for number in range(SEEN_MOMENTS + 100)]

    moments = history_of(well_formed(Related(service=a_service_body(), events=events)))

    assert len(moments) == SEEN_MOMENTS
    assert moments[-1].at == at(59)
