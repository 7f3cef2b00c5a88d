"""TorchServe's handler contract: our runtimes answer what TorchServe answers, or differ as the case says."""

from __future__ import annotations

import pytest

from tests.conformance.archives import served_by
from tests.conformance.case import BYTES, JSON, TEXT, Case, Refusal
from tests.conformance.cases import CASES
from tests.conformance.conftest import Record
from tests.conformance.differences import compared
from tests.conformance.recording import as_recorded
from tests.support.runtimes import OURS, TORCHSERVE

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize(
    ("envelope", "case"),
    [pytest.param(envelope, case, id=case.name) for envelope, cases in CASES.items() for case in cases],
)
def test_torchserve_answers_as_the_case_says(recorded: Record, envelope: str, case: Case) -> None:
    answer = recorded(TORCHSERVE, envelope).cases[case.name]

    assert answer.status == case.status, answer.body[:500]


@pytest.mark.parametrize(
    ("envelope", "case", "kind"),
    [
        pytest.param(envelope, case, kind, id=f"{case.name}-{kind}")
        for envelope, cases in CASES.items()
        for kind in served_by(envelope)
        for case in cases
    ],
)
def test_ours_answer_the_same(recorded: Record, kind: str, envelope: str, case: Case) -> None:
    reference = recorded(TORCHSERVE, envelope).cases[case.name]
    answer = as_recorded(reference, recorded(kind, envelope).cases[case.name])

    if isinstance(case.ours, Refusal):
        assert (answer.status, answer.content_type) == (case.ours.status, JSON), answer.body[:500]
        assert case.ours.words in answer.document["error"]
    elif case.ours is not None:
        assert answer == case.ours
    else:
        theirs, ours = compared(case, reference, answer)
        assert ours == theirs
        assert answer.content_type is not None or not answer.body


@pytest.mark.parametrize("kind", OURS)
@pytest.mark.parametrize(
    ("result", "content_type"),
    [("str", TEXT), ("empty", TEXT), ("bytes", BYTES), ("bytearray", BYTES), ("dict", JSON), ("list", JSON),
     ("int", JSON), ("none", JSON), ("nan", JSON)],
)  # fmt: skip
def test_ours_say_what_a_result_is(recorded: Record, kind: str, result: str, content_type: str) -> None:
    assert recorded(TORCHSERVE, "").cases[f"result-{result}"].content_type is None
    assert recorded(kind, "").cases[f"result-{result}"].content_type == content_type


def test_ours_say_that_a_tensor_is_bytes(recorded: Record) -> None:
    assert recorded(TORCHSERVE, "stock").cases["result-tensor"].content_type is None
    assert recorded("mar", "stock").cases["result-tensor"].content_type == BYTES


@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
def test_a_response_header_of_the_handler_is_sent(recorded: Record, kind: str) -> None:
    assert recorded(kind, "").cases["respond-header"].headers["x-answer"] == "42"


@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
def test_the_handlers_request_id_is_the_one_that_the_client_gets(recorded: Record, kind: str) -> None:
    answer = recorded(kind, "").request_id

    assert answer.body.decode() == answer.headers["x-request-id"]
