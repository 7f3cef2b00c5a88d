"""Conditions: merged without losing one, and summed up in Ready."""

from __future__ import annotations

import pytest

from isvc_operator.api.inference_service import Condition
from isvc_operator.limits import MESSAGE_BYTES
from isvc_operator.observe.conditions import condition, merge, ready, service_conditions
from isvc_operator.telemetry.snapshot import ServiceCondition
from tests.support.builders import EARLIER, NOW, a_service_body


def test_empty_reasons_and_messages_are_left_out() -> None:
    assert condition("Ready", True, "", "") == Condition(type="Ready", status="True")


# --- ready -------------------------------------------------------------------------------------------

GOOD = [condition("PredictorReady", True, "NewReplicaSetAvailable"), condition("IngressReady", True)]
STARTING = condition("PredictorReady", None, "LoadingModel", "copying")
CRASHED = condition("PredictorReady", False, "ServerFailed", "it crashed")
NO_INGRESS = condition("IngressReady", False, "IngressNotCreated", "not there")
INGRESS_UNKNOWN = condition("IngressReady", None, "PredictorNotResolved")
IGNORED = condition("FieldsIgnored", True, "FieldsIgnored", "Ignored: spec.predictr")

SUMS = {
    "both fail: the predictor's words": (
        [CRASHED, NO_INGRESS],
        condition("Ready", False, "ServerFailed", "it crashed"),
    ),
    "a failure outweighs the unknown": (
        [STARTING, NO_INGRESS],
        condition("Ready", False, "IngressNotCreated", "not there"),
    ),
    "the ingress is unknown": ([GOOD[0], INGRESS_UNKNOWN], condition("Ready", None, "PredictorNotResolved")),
    "a change that is held back is referred to first": (
        [*GOOD, IGNORED, condition("ChangeHeldBack", True, "CanaryNotSupported", "held back")],
        condition(
            "Ready",
            True,
            message="The last change is held back; the condition ChangeHeldBack says why\n"
            "Some settings have no effect; the condition FieldsIgnored lists them",
        ),
    ),
    "ignored settings are referred to after a failure": (
        [CRASHED, GOOD[1], IGNORED],
        condition(
            "Ready",
            False,
            "ServerFailed",
            "it crashed\nSome settings have no effect; the condition FieldsIgnored lists them",
        ),
    ),
}


@pytest.mark.parametrize(("conditions", "expected"), SUMS.values(), ids=SUMS.keys())
def test_ready_sums_up(conditions: list[Condition], expected: Condition) -> None:
    assert ready(conditions) == expected


def test_a_long_failure_leaves_room_for_the_reference_to_ignored_settings() -> None:
    message = ready([condition("PredictorReady", False, "ServerFailed", "x" * 2 * MESSAGE_BYTES), IGNORED]).message

    assert message is not None
    assert message.endswith("x…\nSome settings have no effect; the condition FieldsIgnored lists them")
    assert len(message.encode()) == MESSAGE_BYTES


# --- merge -------------------------------------------------------------------------------------------


def since(item: Condition, time: str | None) -> Condition:
    return item.model_copy(update={"last_transition_time": time})


BEFORE = condition("Ready", False, "R", "m")
OTHER_WORDS = {
    "reason": condition("Ready", False, "Other", "m"),
    "message": condition("Ready", False, "R", "other"),
    "severity": BEFORE.model_copy(update={"severity": "Info"}),
}
ANOTHER_STATUS = condition("Ready", None, "R", "m")
MERGED: dict[str, tuple[list[Condition], list[Condition], list[Condition]]] = {
    "new ones get the time, sorted by type": ([], GOOD, [since(GOOD[1], NOW), since(GOOD[0], NOW)]),
    "those that say the same keep theirs": (
        [since(item, EARLIER) for item in GOOD],
        GOOD,
        [since(GOOD[1], EARLIER), since(GOOD[0], EARLIER)],
    ),
    "two that change at once both get it": (
        [since(item, EARLIER) for item in (*GOOD, condition("Stopped", False))],
        [CRASHED, NO_INGRESS, condition("Stopped", False)],
        [since(NO_INGRESS, NOW), since(CRASHED, NOW), since(condition("Stopped", False), EARLIER)],
    ),
    "a change of the status gets it": ([since(BEFORE, EARLIER)], [ANOTHER_STATUS], [since(ANOTHER_STATUS, NOW)]),
    **{
        f"another {field} for the same status keeps it": (
            [since(BEFORE, EARLIER)],
            [changed],
            [since(changed, EARLIER)],
        )
        for field, changed in OTHER_WORDS.items()
    },
    "one that no longer applies is removed": ([since(IGNORED, EARLIER)], [GOOD[1]], [since(GOOD[1], NOW)]),
    "one that had no time gets it": ([GOOD[1]], [GOOD[1]], [since(GOOD[1], NOW)]),
}


@pytest.mark.parametrize(("before", "current", "merged"), MERGED.values(), ids=MERGED.keys())
def test_of_conditions(before: list[Condition], current: list[Condition], merged: list[Condition]) -> None:
    assert merge(before, current, NOW) == merged


def test_a_message_is_bounded_and_nothing_in_it_acts() -> None:
    message = condition("Ready", False, "R", "a\x1b[2J\u202eb\n" + "ä" * 1_000_000).message

    assert message is not None
    assert message.startswith("a\\x1b[2J\\u202eb\nää")
    assert len(message.encode()) in (MESSAGE_BYTES, MESSAGE_BYTES - 1)


# --- for metrics -----------------------------------------------------------------------------------------


def test_a_service_that_is_well_has_one_condition_for_metrics_and_others_what_they_tell() -> None:
    well = {"type": "Ready", "status": "True"}
    stored = [
        {"type": "FieldsIgnored", "status": "True", "reason": "FieldsIgnored"},
        {"type": "IngressReady", "status": "True"},
        {"type": "PredictorReady", "status": "False", "reason": "ImagePullFailed"},
        {"type": "Ready", "status": "False", "reason": "ImagePullFailed"},
        {"type": "Stalled", "status": "True", "reason": "ImagePullFailed"},
        {"type": "Stopped", "status": "False"},
        {"type": "SomebodyElses", "status": "True"},
    ]

    assert [*service_conditions(a_service_body())] == []
    assert [*service_conditions({**a_service_body(), "status": {"conditions": [well]}})] == [
        ServiceCondition("models", "torchserve", "Ready", "True", "")
    ]
    assert [*service_conditions({**a_service_body(), "status": {"conditions": stored}})] == [
        ServiceCondition("models", "torchserve", "FieldsIgnored", "True", "FieldsIgnored"),
        ServiceCondition("models", "torchserve", "Ready", "False", "ImagePullFailed"),
        ServiceCondition("models", "torchserve", "Stalled", "True", "ImagePullFailed"),
    ]
