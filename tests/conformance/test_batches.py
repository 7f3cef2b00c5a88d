"""Requests that come at once: each gets its own answer, whatever the others are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.conformance.batches import ENVELOPED, ONE_RAISES, PLAIN, ROWS, TENSOR, TENSORS, TEXTS
from tests.conformance.conftest import Record
from tests.support.runtimes import OURS, TORCHSERVE, Answer

pytestmark = pytest.mark.timeout(600)
each_of_ours = pytest.mark.parametrize("kind", OURS)


def _texts(answers: Sequence[Answer]) -> list[object]:
    return [answer.document["text"] if answer.status == 200 else answer.status for answer in answers]


@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
def test_requests_without_an_envelope_are_answered_each(recorded: Record, kind: str) -> None:
    assert _texts(recorded(kind, "").batches[PLAIN.name]) == list(TEXTS)


def test_torchserve_fails_a_batch_for_one_of_its_requests(recorded: Record) -> None:
    """What is recorded of a batch that fails is what the others got that did not."""
    assert 503 in _texts(recorded(TORCHSERVE, "").batches[ONE_RAISES.name])


@each_of_ours
def test_a_request_that_makes_the_handler_raise_fails_alone(recorded: Record, kind: str) -> None:
    failed, *others = recorded(kind, "").batches[ONE_RAISES.name]

    assert (failed.status, "one of these cannot be read" in failed.document["error"]) == (500, True)
    assert _texts(others) == list(TEXTS[1:])


def test_torchserve_fails_a_batch_behind_an_envelope(recorded: Record) -> None:
    assert 503 in [answer.status for answer in recorded(TORCHSERVE, "kserve").batches[ENVELOPED.name]]


@each_of_ours
def test_the_instances_of_each_request_are_predicted_in_order(recorded: Record, kind: str) -> None:
    answers = recorded(kind, "kserve").batches[ENVELOPED.name]

    texts = [[prediction["text"] for prediction in answer.document["predictions"]] for answer in answers]
    assert texts == [list(TEXTS[: number + 1]) for number in range(len(TEXTS))]


@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
def test_a_handler_of_which_nothing_is_said_gets_one_row_at_a_time(recorded: Record, kind: str) -> None:
    """It reads the first row alone: with others beside it, they would have the same answer."""
    answers = recorded(kind, ROWS.envelope).batches[ROWS.name]

    assert [answer.body for answer in answers] == [request.body for request in ROWS.requests]


@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
def test_a_handler_of_tensors_gets_those_of_one_request_at_a_time(recorded: Record, kind: str) -> None:
    answers = recorded(kind, TENSORS.envelope).batches[TENSORS.name]

    outputs = [answer.document["outputs"] for answer in answers]
    assert outputs == [[{**TENSOR, "data": [number]}] for number in range(len(TENSORS.requests))]
