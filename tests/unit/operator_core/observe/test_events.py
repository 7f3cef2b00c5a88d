"""The Event that reports a change."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.api.inference_service import InferenceServiceStatus
from isvc_operator.observe.conditions import condition
from isvc_operator.observe.events import events_for
from tests.support.builders import NAMESPACE, NOW, SERVICE_UID, a_service

STARTING = condition("Ready", None, "LoadingModel", "copying")
CRASHED = condition("Ready", False, "ServerFailed", "it crashed")
GOOD = condition("Ready", True)
IGNORED = condition("FieldsIgnored", True, "FieldsIgnored", "Ignored: spec.predictr")


def event_of_change(before: Any, after: Any) -> dict[str, Any] | None:
    stored = None if before is None else {"conditions": [before.as_dict()]}
    events = events_for(a_service(status=stored), InferenceServiceStatus(conditions=[after]), NOW)
    return dict(events[0]) if events else None


def test_the_event_of_a_failure() -> None:
    assert event_of_change(STARTING, CRASHED) == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "torchserve.", "namespace": NAMESPACE},
        "involvedObject": {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "name": "torchserve",
            "namespace": NAMESPACE,
            "uid": SERVICE_UID,
            "resourceVersion": "1",
        },
        "type": "Warning",
        "reason": "ServerFailed",
        "message": "it crashed",
        "source": {"component": "isvc-operator"},
        "reportingComponent": "isvc-operator",
        "firstTimestamp": NOW,
        "lastTimestamp": NOW,
        "count": 1,
    }


CHANGES = {
    "another stage": (
        STARTING,
        condition("Ready", None, "StartingServer", "starting"),
        ("Normal", "StartingServer", "starting"),
    ),
    "readiness": (STARTING, GOOD, ("Normal", "InferenceServiceReady", "InferenceService [torchserve] is Ready")),
    "readiness from the start": (
        None,
        GOOD,
        ("Normal", "InferenceServiceReady", "InferenceService [torchserve] is Ready"),
    ),
    "readiness with ignored settings": (
        STARTING,
        condition("Ready", True, message="Some settings have no effect"),
        ("Normal", "InferenceServiceReady", "InferenceService [torchserve] is Ready"),
    ),
    "ignored settings": (
        None,
        IGNORED,
        ("Warning", "FieldsIgnored", "Ignored: spec.predictr"),
    ),
    "other ignored settings": (
        IGNORED,
        condition("FieldsIgnored", True, "FieldsIgnored", "Ignored: spec.transformr"),
        ("Warning", "FieldsIgnored", "Ignored: spec.transformr"),
    ),
    "a loss": (GOOD, CRASHED, ("Warning", "ServerFailed", "it crashed")),
    "a loss without words": (
        GOOD,
        condition("Ready", False),
        ("Warning", "InferenceServiceNotReady", "InferenceService [torchserve] is not Ready"),
    ),
    "the first stage of a new service": (None, STARTING, None),
    "the same again": (CRASHED, CRASHED, None),
    "other words for the same": (CRASHED, condition("Ready", False, "ServerFailed", "it crashed again"), None),
    "still ready": (GOOD, GOOD, None),
    "the same ignored settings": (IGNORED, IGNORED, None),
}


@pytest.mark.parametrize(("before", "after", "words"), CHANGES.values(), ids=CHANGES.keys())
def test_what_an_event_says_of(before: Any, after: Any, words: tuple[str, str, str] | None) -> None:
    event = event_of_change(before, after)

    assert (event and (event["type"], event["reason"], event["message"])) == words


def test_no_event_is_made_before_anything_is_known() -> None:
    assert events_for(a_service(), InferenceServiceStatus(), NOW) == []


@pytest.mark.parametrize("letter", ["a", "ä", "…", "🙂"])
def test_a_long_message_is_cut_to_the_bytes_that_an_event_may_have(letter: str) -> None:
    event = event_of_change(None, condition("Ready", False, "ServerFailed", letter * 2000))

    assert event is not None
    message = event["message"]
    assert 1020 <= len(message.encode()) <= 1024
    assert message == letter * (len(message) - 1) + "…"


def test_a_message_that_just_fits_is_whole() -> None:
    event = event_of_change(None, condition("Ready", False, "ServerFailed", "ä" * 512))

    assert event is not None
    assert event["message"] == "ä" * 512
