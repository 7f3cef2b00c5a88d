"""A diagnosis names the right cause first, with its evidence and its fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from isvc.commands.seen.lines import finding_lines
from isvc.view.diagnosis import Answered, Finding, diagnose
from isvc.view.service import view_of
from isvc.view.source import Related
from isvc_operator.observe.pods import PodFailure
from tests.support.builders import a_container, a_crashed_pod, a_deployment, a_pod, ended, waiting
from tests.support.failing_pods import PODS_OF_EVENTS
from tests.support.related_objects import a_related, an_event


def found(related: Related) -> Sequence[Finding]:
    return diagnose(view_of(related)).findings


def test_requests_that_fail_are_told_of_a_service_that_serves() -> None:
    service = view_of(a_related())

    answered = Answered({200: 3.0, 503: 1.0, 422: 2.0, 500: 4.0})
    diagnosis = diagnose(service, answered, "POST / answered 500: KeyError")

    (finding,) = diagnosis.findings
    assert (diagnosis.healthy, finding.cause, finding.log) == (
        True,
        "5 of 10 requests have failed since its pods started: 4 with HTTP 500, 1 with HTTP 503",
        "POST / answered 500: KeyError",
    )
    assert diagnose(service, Answered({200: 3.0, 404: 1.0})) == diagnose(service)


def test_a_transformer_that_asks_for_a_model_that_its_predictor_lacks_is_told() -> None:
    (finding,) = diagnose(view_of(a_related()), Answered({200: 1.0, 404: 3.0, 500: 1.0}, without_model=2.0)).findings

    assert (finding.cause, finding.fix) == (
        "3 of 5 requests have failed since its pods started: 2 with HTTP 404, 1 with HTTP 500; the transformer asks "
        "for a model that its predictor does not have",
        "set the transformer's --model_name to a model of its predictor; see what the responses say, and the errors in "
        "the log: isvc logs torchserve",
    )


@pytest.mark.parametrize(("pod", "events", "failure"), PODS_OF_EVENTS.values(), ids=PODS_OF_EVENTS.keys())
def test_the_first_cause_is_that_of_the_pods_events(
    pod: dict[str, Any], events: list[dict[str, Any]], failure: PodFailure
) -> None:
    related = a_related(pod, deployment=a_deployment(available=0), events=events)

    (first,) = found(related)
    assert (first.reason, first.cause, first.fix) == (failure.reason, failure.cause, failure.fix)
    assert any(failure.cause in item.get("message", "") for item in related.service["status"]["conditions"])


def test_pods_that_fail_for_the_same_are_one_finding() -> None:
    """Their messages differ in what is of the process or the time."""
    words = ("out of licences at 2026-01-01T12:00:01Z, pid 71", "out of licences at 2026-01-01T12:00:09Z, pid 9012")
    first, second = (
        a_crashed_pod(f"torchserve-predictor-1-{letter}", containers=[a_container(state=ended(1, text))])
        for letter, text in zip("ba", words, strict=True)
    )

    (finding,) = found(a_related(first, second))
    assert finding.cause == words[0]


def test_pods_that_fail_for_different_causes_are_a_finding_each() -> None:
    words = ("layer.3.weight is missing", "layer.4.weight is missing")
    first, second = (
        a_crashed_pod(f"torchserve-predictor-1-{letter}", containers=[a_container(state=ended(1, text))])
        for letter, text in zip("ba", words, strict=True)
    )

    assert [item.cause for item in found(a_related(first, second))] == [*words]


def test_of_events_that_repeat_each_other_the_last_one_is_evidence_with_the_count_of_all() -> None:
    server = a_container(state=waiting("CrashLoopBackOff"), before=ended(1, "no licence"))
    messages = {"BackOff": ("back-off 10s restarting", "back-off 40s restarting"), "Unhealthy": ("it gives 503",)}
    events = [
        an_event(reason, text, at=f"2026-01-01T12:00:0{second}Z", type_="Warning")
        for reason, texts in messages.items()
        for second, text in enumerate(texts)
    ]

    (finding,) = found(a_related(a_crashed_pod(containers=[server]), events=events))
    assert finding.evidence == [
        "2026-01-01T12:00:00Z Unhealthy: it gives 503",
        "2026-01-01T12:00:01Z BackOff: back-off 40s restarting (2 times)",
    ]


def test_the_fix_for_a_module_that_is_missing_names_it() -> None:
    traceback = (
        'Traceback (most recent call last):\n  File "/app/t.py", line 1, in <module>\n    import nowhere.sub\n'
        "ModuleNotFoundError: No module named 'nowhere'"
    )
    server = a_container(state=waiting("CrashLoopBackOff"), before=ended(1, traceback, instance="one"))

    (first,) = found(a_related(a_pod(containers=[server])))

    assert (first.cause, first.fix) == (
        traceback,
        "install the package with the module nowhere (on a cluster: in the image, for isvc run: beside isvc), and add "
        "it to the requirements; or correct the module's name",
    )
    assert [text for _, text in finding_lines(first)][1:5] == [
        "ModuleNotFoundError: No module named 'nowhere'",
        "pod torchserve-predictor-1-a, container kserve-container (exit code 1)",
        "| Traceback (most recent call last):",
        '|   File "/app/t.py", line 1, in <module>',
    ]
