"""`decode_input_request=false`: handlers get bodies of JSON as bytes."""

from __future__ import annotations

import pytest

from tests.conformance.cases.settings import UNDECODED
from tests.conformance.conftest import Record
from tests.support.runtimes import OURS, TORCHSERVE


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
def test_json_reaches_the_handler_as_bytes(recorded: Record, kind: str) -> None:
    answer = recorded(kind, "settings").cases[UNDECODED.name]

    assert (answer.status, answer.document) == (200, {"body": {"bytearray": '{"a": 1}'}})
