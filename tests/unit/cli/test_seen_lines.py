"""Services as a table, as a tree, and as a line for each change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from isvc.commands.output import Cell, Styled, aligned
from isvc.commands.seen.lines import age, bar, change, finding_lines, one_service, table, tree
from isvc.view.diagnosis import diagnose
from isvc.view.service import view_of
from isvc.view.source import Related
from isvc.view.values import ComponentView, ConditionView, DownloadProgress, Failure, HealthStatus, Hop, ServiceView
from isvc_operator.text import one_line, quoted
from tests.support.builders import (
    a_container,
    a_crashed_pod,
    a_deployment,
    a_pod,
    a_ready_pod,
    a_service_body,
    an_initializer,
    ended,
    running,
    waiting,
)
from tests.support.failing_pods import POD
from tests.support.fake_services import FakeServices
from tests.support.related_objects import a_problem_of, a_related, an_event

NOW = datetime(2026, 1, 1, 12, 7, tzinfo=UTC)
COPYING = view_of(
    a_related(
        a_pod(initializer=an_initializer(running())),
        deployment=a_deployment(available=0),
        logs={(POD, "storage-initializer"): "43 % of 1.2 GiB (35.0 MiB/s, 20 s left)"},
    )
)
CRASHED = view_of(
    a_related(
        a_pod(
            initializer=an_initializer(),
            containers=[
                {
                    **a_container(state=waiting("CrashLoopBackOff"), before=ended(4, "bert: no licence")),
                    "restartCount": 5,
                }
            ],
        ),
        logs={(POD, "kserve-container"): "Traceback\nRuntimeError"},
        events=[{**an_event("BackOff", "restarting it", type_="Warning"), "count": 12}],
    )
)
BAR = "████████░░░░░░░░░░░░ 43 % of 1.2 GiB, 35.0 MiB/s, 20 s left"


def text(lines: Iterable[Sequence[Cell]]) -> list[str]:
    return [" ".join(cell.text if isinstance(cell, Styled) else cell for cell in line).rstrip() for line in lines]


def test_a_table_has_a_row_for_each_service() -> None:
    services = [
        view_of(a_related()),
        COPYING,
        CRASHED,
        view_of(a_problem_of("NoSupportingRuntime", "nothing\nserves it")),
    ]

    assert text(aligned(*table(services, NOW, with_namespace=False))) == [
        "NAME         HEALTH     STAGE                 PODS   AGE    URL OR CAUSE",
        "torchserve   Ready                            1/1    1h7m   http://torchserve.models.example.com",
        f"torchserve   Starting   LoadingModel          0/1    1h7m   {BAR}; started 1h7m ago",
        "torchserve   Failed     ServerFailed          0/1    1h7m   bert: no licence",
        "torchserve   Failed     NoSupportingRuntime   0/0           nothing",
    ]


def test_a_tree_has_the_progress_of_a_copy() -> None:
    assert text(tree(COPYING, NOW))[-4:] == [
        "└─ predictor torchserve-predictor Starting LoadingModel (0 of 1 available)",
        f"   └─ pod {POD} Starting LoadingModel (node-1, 1h7m)",
        f"         {BAR}",
        "      └─ storage-initializer Running",
    ]


def test_a_history_has_the_time_since_the_service_was_created() -> None:
    lines = text(one_service(CRASHED, NOW, with_history=True))[len(text(tree(CRASHED, NOW))) :]

    assert lines == [
        "",
        "2026-01-01T11:00:00     +0s InferenceService/torchserve Created",
        f"2026-01-01T11:00:00     +0s Pod/{POD} Created",
        f"2026-01-01T12:00:00     +1h Pod/{POD} BackOff restarting it (12 times)",
        "2026-01-01T12:00:00     +1h IngressReady True",
        f"2026-01-01T12:00:00     +1h PredictorReady ServerFailed pod {POD}, container kserve-container ended with "
        "exit code 4: bert: no licence",
    ]


def test_a_change_is_one_line() -> None:
    assert text(change(item, NOW) for item in (view_of(a_related()), COPYING, CRASHED)) == [
        "12:07:00 models/torchserve Ready http://torchserve.models.example.com",
        f"12:07:00 models/torchserve Starting LoadingModel {BAR}",
        "12:07:00 models/torchserve Failed ServerFailed bert: no licence",
    ]


@pytest.mark.parametrize(
    ("progressed", "told"),
    [
        ("2026-01-01T12:05:05Z", "started 2m ago, counts as failed in 8m5s"),
        ("2026-01-01T11:05:05Z", "started 2m ago"),
        ("9999-12-31T23:59:59Z", "started 2m ago"),
    ],
)
def test_a_start_tells_how_long_it_has_taken_and_may_take(progressed: str, told: str) -> None:
    moves = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "lastUpdateTime": progressed}
    deployment = a_deployment(available=0, progressing=None, conditions=[moves])
    server = a_container(state={"running": {"startedAt": "2026-01-01T12:05:00Z"}})
    service = view_of(a_related(a_pod(initializer=an_initializer(), containers=[server]), deployment=deployment))

    (_, row) = text(aligned(*table([service], NOW, with_namespace=False)))
    assert row.endswith(f"; {told}")
    assert text(tree(service, NOW))[0] == f"torchserve in namespace models Starting ({told})"
    assert text([change(service, NOW)])[0].endswith("0 available)")  # a line for a change, and not for each second


def test_pods_that_leave_and_shares_of_requests_are_told() -> None:
    old = a_ready_pod("old", template="0", created="2026-01-01T09:00:00Z")
    service = view_of(a_related(a_pod(), old))

    assert any(line.endswith("pod old Ready (node-1, 3h7m, older template)") for line in text(tree(service, NOW)))

    split = ServiceView(
        namespace="models",
        name="bert",
        health=HealthStatus.READY,
        conditions=[ConditionView(type="Ready", status="True")],
        components=[
            ComponentView(kind="predictor", name="one", health=HealthStatus.READY, wanted=1, available=1, traffic=25)
        ],
        request_path=[
            Hop(name="h", kind="HTTPRoute", target="one", weight=25),
            Hop(name="h", kind="HTTPRoute", target="two", weight=75),
        ],
    )
    assert text(tree(split, NOW)) == [
        "bert in namespace models Ready",
        "   path     h (one 25 %, two 75 %)",
        "└─ predictor one Ready (1 of 1 available, 25 % of requests)",
    ]


@pytest.mark.parametrize(("ready", "stage"), [("Unknown", "StartingServer"), ("True", "")])
def test_a_rollout_has_the_word_and_the_line_of_the_dashboard(ready: str, stage: str) -> None:
    service = view_of(FakeServices(began=NOW - timedelta(seconds=3660)).rolling(ready=ready))
    starts = "started 39s ago" if stage else ""
    told = "0 of 2 newer pods ready; 2 older serve"

    shown = text([*aligned(*table([service], NOW, with_namespace=False)), change(service, NOW), *tree(service, NOW)])
    assert [" ".join(line.split()) for line in shown if "Rolling out" in line] == [
        " ".join(["torchserve Rolling out", *stage.split(), "2/2 1h1m", f"{told}; {starts}".removesuffix("; ")]),
        " ".join(["12:07:00 models/torchserve Rolling out", *stage.split(), told]),
        f"torchserve in namespace models Rolling out ({starts})".removesuffix(" ()"),
        " ".join(["└─ predictor torchserve-predictor Rolling out", *stage.split(), "(2 of 2 available)"]),
    ]


def test_pods_that_serve_on_beside_one_that_fails_are_told() -> None:
    old = a_ready_pod("old", template="0", created="2026-01-01T09:00:00Z")
    service = view_of(a_related(a_crashed_pod("new", template="1"), old))

    assert [line for line in text(tree(service, NOW)) if line.startswith("└─ predictor")] == [
        "└─ predictor torchserve-predictor Failed ServerFailed "
        "(0 of 1 available, the pods from before the change serve on)"
    ]
    (_, row) = text(aligned(*table([service], NOW, with_namespace=False)))
    assert row == (
        "torchserve   Failed   ServerFailed   0/1    1h7m   the pods from before the change serve on: ValueError: no "
        "such layer"
    )


def test_a_warning_of_a_service_that_serves_is_told() -> None:
    service = view_of(a_related(ignored=["spec.predictor.model.storageURl"], paused={"predictor": "spec.canary"}))

    (_, row) = text(aligned(*table([service], NOW, with_namespace=False)))
    assert row == "torchserve   Ready    CanaryNotSupported   1/1    1h7m   http://torchserve.models.example.com"
    told = text(tree(service, NOW))
    assert [line for line in told if line.startswith("warning")] == [
        f"warning   {item.reason}: {one_line(item.message, 160)}"
        for item in service.conditions
        if item.severity == "Warning"
    ]


def test_a_service_that_no_operator_has_processed_says_so() -> None:
    service = view_of(Related(service=a_service_body()))

    (_, row) = text(aligned(*table([service], NOW, with_namespace=False)))
    assert row.split(maxsplit=4)[1:] == ["Starting", "NotProcessed", "0/0", "no operator has written a status yet"]
    assert text(tree(service, NOW))[-1] == "warning   NotProcessed: no operator has written a status yet"


def test_pods_of_before_a_change_that_cannot_be_served_are_told() -> None:
    problem = a_problem_of("NoSupportingRuntime", "nothing serves it")
    service = view_of(replace(a_related(), service=problem.service))

    (_, row) = text(aligned(*table([service], NOW, with_namespace=False)))
    assert row.endswith("the pods from before the change serve on: nothing serves it")
    assert diagnose(service).findings[0].evidence == ["the pods from before the change serve on"]


def test_lines_of_a_log_keep_their_indent() -> None:
    log = "\n    Traceback (most recent call last):\n      File\n    KeyError\n\n"
    failure = Failure(reason="ServerFailed", cause="no licence", log=log)

    assert text(finding_lines(failure)) == [
        "reason    ServerFailed",
        "cause     no licence",
        "log       |     Traceback (most recent call last):",
        "          |       File",
        "          |     KeyError",
    ]
    assert quoted(log, 1000) == "    Traceback (most recent call last):\n|       File\n|     KeyError"


def test_lines_of_a_log_that_repeat_the_cause_are_left_out() -> None:
    log = """
  File "/models/handler.py", line 3, in load
    return found["a"]
           ~~~~~^^^^^
KeyError: 'a'
"""
    failure = Failure(reason="ServerFailed", cause="bert: KeyError: 'a'", log=log)

    assert text(finding_lines(failure)) == [
        "reason    ServerFailed",
        "cause     bert: KeyError: 'a'",
        'log       |   File "/models/handler.py", line 3, in load',
        '          |     return found["a"]',
    ]


@pytest.mark.parametrize(
    ("since", "told"),
    [
        ("2026-01-01T12:06:59Z", "1s"),
        ("2026-01-01T12:05:00Z", "2m"),
        ("2026-01-01T09:02:03Z", "3h4m"),
        ("2025-12-30T12:06:00Z", "2d"),
        ("2027-01-01T00:00:00Z", "0s"),
        ("2026-01-01T12:06:00", "1m"),
        ("", ""),
    ],
)
def test_an_age_has_its_two_largest_units(since: str, told: str) -> None:
    assert age(since, NOW) == told


@pytest.mark.parametrize(
    ("progress", "told"),
    [
        (
            DownloadProgress(percent=0, size="1 GiB", rate="1 MiB/s", seconds_left=9),
            f"{'░' * 20} 0 % of 1 GiB, 1 MiB/s, 9 s left",
        ),
        (DownloadProgress(percent=100, size="1 GiB"), f"{'█' * 20} 100 % of 1 GiB"),
        (DownloadProgress(size="1 GiB", rate="1 MiB/s"), "1 GiB, 1 MiB/s"),
    ],
)
def test_a_bar_has_its_figures(progress: DownloadProgress, told: str) -> None:
    assert bar(progress) == told
