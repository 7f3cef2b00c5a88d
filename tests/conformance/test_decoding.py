"""`decode_input_request=false`: handlers get bodies of JSON, and of text, as bytes."""

from __future__ import annotations

import pytest

from tests.conformance.case import Case
from tests.conformance.cases.settings import UNDECODED, UNDECODED_PART, UNDECODED_TEXT
from tests.conformance.conftest import Record
from tests.support.runtimes import OURS, TORCHSERVE


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
@pytest.mark.parametrize(
    ("case", "row"),
    [
        (UNDECODED, {"body": {"bytearray": '{"a": 1}'}}),
        (UNDECODED_TEXT, {"body": {"bytearray": "a,ü".encode().decode("latin-1")}}),
        (UNDECODED_PART, {"data": {"bytearray": "ü".encode().decode("latin-1")}}),
    ],
    ids=lambda value: value.name if isinstance(value, Case) else "",
)
def test_json_and_text_reach_the_handler_as_bytes(recorded: Record, kind: str, case: Case, row: object) -> None:
    answer = recorded(kind, "settings").cases[case.name]

    assert (answer.status, answer.document) == (200, row)
