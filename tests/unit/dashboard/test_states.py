"""What the list and the head of a page say of a service: its state, one line, one fix."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isvc.dashboard.states import ShownCause, ShownState, Summary, cause_of, summary_of, told_once
from isvc.view.service import view_of
from isvc.view.source import Related
from isvc.view.values import Failure
from tests.support.builders import a_crashed_pod, a_ready_pod
from tests.support.fake_services import TRACEBACK, FakeServices
from tests.support.related_objects import a_related

SERVICE = FakeServices()
PLACE = f"pod {SERVICE.pod_name}, container kserve-container"


@pytest.mark.parametrize(
    ("related", "state", "line"),
    [
        (SERVICE.ready(), ShownState.READY, ""),
        (SERVICE.rolling(), ShownState.ROLLING, "0 of 2 newer pods ready; 2 older serve"),
        (SERVICE.rolling(ready="True"), ShownState.ROLLING, "0 of 2 newer pods ready; 2 older serve"),
        (SERVICE.starting(), ShownState.STARTING, "the server is starting and loading the model"),
        (SERVICE.unprocessed(), ShownState.UNPROCESSED, "no operator has written a status yet"),
        (SERVICE.stopped(), ShownState.STOPPED, "the service is stopped by its annotation"),
        (SERVICE.failed("no such file"), ShownState.FAILED, "no such file"),
    ],
    ids=lambda value: value.name if isinstance(value, ShownState) else "",
)
def test_a_service_has_a_state_and_one_line(related: Related, state: ShownState, line: str) -> None:
    summary = summary_of(view_of(related))

    assert (summary.state, summary.cause.line if summary.cause else "") == (state, line)


def test_that_older_pods_serve_on_is_said_first() -> None:
    old = a_ready_pod("old", template="0", created="2026-01-01T09:00:00Z")
    cause = summary_of(view_of(a_related(a_crashed_pod("new", template="1"), old))).cause

    assert cause is not None
    assert cause.line == "the pods from before the change serve on: ValueError: no such layer"


def test_what_needs_somebody_comes_first() -> None:
    assert [state.value for state in sorted(ShownState, key=lambda state: state.rank)] == [
        "Failed", "Not processed", "Rolling out", "Starting", "Terminating", "Ready", "Stopped",
    ]  # fmt: skip


def test_a_service_that_no_operator_has_seen_has_a_next_command() -> None:
    fix = "if it stays, isvc doctor says whether an operator runs"

    assert summary_of(view_of(SERVICE.unprocessed())) == Summary(
        state=ShownState.UNPROCESSED, cause=ShownCause(reason="", line="no operator has written a status yet", fix=fix)
    )


def test_of_a_traceback_what_was_raised_and_where_in_the_users_code_is_said() -> None:
    failure = Failure(
        reason="ServerFailed",
        cause=f"{PLACE} exited with code 1: {TRACEBACK}",
        fix="correct what the message or the last log lines name",
        location=PLACE,
        exit_code=1,
        log=f"it starts\n{TRACEBACK}",
    )

    cause = cause_of(failure)
    assert cause == ShownCause(
        reason="ServerFailed",
        line="RuntimeError: Error(s) in loading state_dict for ConvNet: size mismatch for fc1.weight",
        text=f"exited with code 1: {TRACEBACK}",
        location=PLACE,
        raised_at="handler.py, line 11",
        exit_code=1,
        log="it starts",
    )
    assert cause.container == (SERVICE.pod_name, "kserve-container")


def test_a_failure_is_told_once() -> None:
    service = view_of(SERVICE.failed())
    (component,) = service.components
    another = Failure(reason="Evicted", cause="pod x: the node has 3 MiB of disk")
    same = replace(another, cause="pod y: the node has 2 MiB of disk")
    pods = [
        *component.pods,
        *(replace(component.pods[0], name=item.cause[4], failure=item) for item in (another, same)),
    ]

    assert told_once(service) == {}
    assert told_once(replace(service, components=[replace(component, pods=pods)])) == {"x": cause_of(another)}
