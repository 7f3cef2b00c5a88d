"""Where a start spent its time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from isvc.dashboard.timeline import Lane, PartKind, TimelinePart, line_of, ticks
from isvc.view.service import view_of
from isvc.view.source import Related
from tests.support.fake_services import BEGAN, FakeServices

SERVICE = FakeServices()
WAITED = TimelinePart(kind=PartKind.WAITING, name="waits for a node, volumes and images", start=0, seconds=2)
COPIED = TimelinePart(kind=PartKind.STORAGE, name="storage-initializer copies the model", start=2, seconds=17)
PREPARED = TimelinePart(kind=PartKind.WAITING, name="prepares the next container", start=19, seconds=1)
SERVER = "kserve-container starts and loads the model"
RESTARTED = "kserve-container waits to be restarted"


def lanes(related: Related, *, now: float) -> list[Lane]:
    line = line_of(view_of(related), BEGAN + timedelta(seconds=now))
    assert line is not None
    return list(line.lanes)


def test_the_longest_part_is_named() -> None:
    (lane,) = lanes(SERVICE.ready(), now=100)

    assert lane.slowest == COPIED


def test_a_start_that_goes_on_ends_now() -> None:
    copying = TimelinePart(
        kind=PartKind.STORAGE, name="storage-initializer copies the model", start=2, seconds=7, going=True
    )

    assert lanes(SERVICE.loading(40), now=10) == [Lane(pod=SERVICE.pod_name, parts=[WAITED, copying], ready=None)]


def test_a_pod_without_a_container_waits() -> None:
    waits = TimelinePart(
        kind=PartKind.WAITING, name="waits for a node, volumes and images", start=0, seconds=8, going=True
    )

    assert lanes(SERVICE.pending(), now=9) == [Lane(pod=SERVICE.pod_name, parts=[waits], ready=None)]


@pytest.mark.parametrize(
    "related", [SERVICE.ready(), SERVICE.crashed("OOMKilled", 137), SERVICE.flapped()], ids=["ready", "restart", "flap"]
)
def test_a_start_has_all_its_parts_until_the_pod_is_ready_for_the_first_time(related: Related) -> None:
    started = TimelinePart(kind=PartKind.SERVER, name=SERVER, start=20, seconds=13)

    assert lanes(related, now=4 * 86400) == [
        Lane(pod=SERVICE.pod_name, parts=[WAITED, COPIED, PREPARED, started], ready=33)
    ]


def test_a_start_whose_times_are_forgotten_is_not_made_up() -> None:
    related = SERVICE.crashed("OOMKilled", 137)
    forgotten = replace(related, children=SERVICE.children())

    assert lanes(forgotten, now=4 * 86400) == [Lane(pod=SERVICE.pod_name, parts=[], ready=None, is_known=False)]


def test_of_a_server_that_was_restarted_often_the_start_is_known_by_when_it_ended() -> None:
    related = SERVICE.crashed("OOMKilled", 137)
    status = related.pods[0]["status"]["containerStatuses"][0]
    status["restartCount"] = 2
    status["lastState"]["terminated"]["startedAt"] = SERVICE.at(2 * 86400)
    started = TimelinePart(kind=PartKind.SERVER, name=SERVER, start=19, seconds=14)

    assert lanes(related, now=4 * 86400) == [Lane(pod=SERVICE.pod_name, parts=[WAITED, COPIED, started], ready=33)]


def test_a_container_that_has_ended_with_an_error_has_failed() -> None:
    before = "kserve-container starts and fails 3 times"
    parts = [
        WAITED,
        COPIED,
        TimelinePart(kind=PartKind.WAITING, name=before, start=19, seconds=91),
        TimelinePart(kind=PartKind.SERVER, name=SERVER, start=110, seconds=8, failed=True),
        TimelinePart(kind=PartKind.WAITING, name=RESTARTED, start=118, seconds=31, going=True),
    ]

    assert lanes(SERVICE.failed(), now=150) == [Lane(pod=SERVICE.pod_name, parts=parts, ready=None)]


@pytest.mark.parametrize(
    ("restarts", "waits", "told"),
    [
        (0, True, ["prepares the next container", SERVER, RESTARTED]),
        (1, True, ["kserve-container starts and fails once", SERVER, RESTARTED]),
        (1, False, ["prepares the next container", SERVER, RESTARTED, SERVER]),
        (2, False, ["kserve-container starts and fails once", SERVER, RESTARTED, SERVER]),
    ],
)
def test_what_a_start_waits_for_is_told_by_how_often_its_server_was_started(
    restarts: int, waits: bool, told: list[str]
) -> None:
    related = SERVICE.failed()
    server = related.pods[0]["status"]["containerStatuses"][0]
    server["restartCount"] = restarts
    if not waits:
        server["state"] = {"running": {"startedAt": SERVICE.at(140)}}

    (lane,) = lanes(related, now=150)
    assert [part.name for part in lane.parts[2:]] == told


def test_a_server_that_is_not_started_yet_is_waited_for() -> None:
    copied = SERVICE.starting()
    copied.pods[0]["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "PodInitializing"}}

    assert lanes(copied, now=25)[0].parts[-1] == replace(PREPARED, seconds=5, going=True)


def test_each_pod_starts_with_its_own_creation() -> None:
    starts = TimelinePart(kind=PartKind.SERVER, name=SERVER, start=21, seconds=39, going=True)

    (newer,) = lanes(SERVICE.rolling(), now=3660)
    assert newer.parts[-1] == starts


def test_without_pods_there_is_no_line() -> None:
    assert line_of(view_of(Related(service=SERVICE.body("Unknown", "WaitingForDeployment", ""))), BEGAN) is None


@pytest.mark.parametrize("length", [1, 3, 34, 61, 700, 5000, 90_000])
def test_there_are_few_marks_and_all_are_round(length: float) -> None:
    marks = ticks(length)

    assert 1 <= len(marks) <= 7
    assert marks[0] == 0
    assert marks[-1] <= length
