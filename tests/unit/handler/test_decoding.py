"""What handlers that get bodies whole see of JSON, by config.properties' decode_input_request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.handler.running import context, json_request, no_piece, whole
from transformer_sdk.handler.calls import HandlerCalls
from transformer_sdk.handler.frames import Batch, Request


def seen(envelope: str, request: Request, *, parses_json: bool) -> Any:
    """The row that the handler gets."""
    rows: list[Any] = []

    def handle(data: list[Any], _: Any) -> list[Any]:
        rows.extend(data)
        return data

    HandlerCalls(handle, envelope, parses_json=parses_json).run(Batch("raw", [request]), context(), no_piece)
    return rows[0]


@pytest.mark.parametrize("envelope", ["none", "kserve", "json", "kservev2"])
@pytest.mark.parametrize(("parses_json", "body"), [(True, {"a": 1}), (False, bytearray(b'{"a":1}'))])
def test_json_stays_bytes_where_it_is_not_to_be_decoded(envelope: str, parses_json: bool, body: object) -> None:
    assert seen(envelope, json_request({"a": 1}), parses_json=parses_json) == {"body": body}


def test_a_body_without_its_row_stays_bytes_as_well() -> None:
    assert seen("body", json_request({"a": 1}), parses_json=False) == bytearray(b'{"a":1}')


def test_text_is_decoded_in_any_case() -> None:
    assert seen("none", whole(b"words", "text/plain"), parses_json=False) == {"body": "words"}


def test_instances_are_understood_in_any_case() -> None:
    assert seen("kserve", json_request({"instances": [1]}), parses_json=False) == 1
