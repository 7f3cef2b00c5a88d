"""What handlers that get bodies whole see of JSON, by config.properties' decode_input_request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.torchserve_compat.running import context, json_request, no_piece, run, whole
from torchserve_compat.frames import HandlerBatch, HandlerRequest
from torchserve_compat.worker.calls import HandlerCalls


def seen(envelope: str, request: HandlerRequest, *, decodes: bool) -> Any:
    """The row that the handler gets."""
    rows: list[Any] = []

    def handle(data: list[Any], _: Any) -> list[Any]:
        rows.extend(data)
        return data

    HandlerCalls(handle, envelope, decodes=decodes).run(HandlerBatch("raw", [request]), context(), no_piece)
    return rows[0]


@pytest.mark.parametrize("envelope", ["none", "kserve", "json", "kservev2"])
@pytest.mark.parametrize(("decodes", "body"), [(True, {"a": 1}), (False, bytearray(b'{"a":1}'))])
def test_json_stays_bytes_where_it_is_not_to_be_decoded(envelope: str, decodes: bool, body: object) -> None:
    assert seen(envelope, json_request({"a": 1}), decodes=decodes) == {"body": body}


@pytest.mark.parametrize("envelope", ["none", "kserve", "json", "kservev2"])
@pytest.mark.parametrize("content_type", ["text/plain", "text/csv", "text/xml"])
@pytest.mark.parametrize(("decodes", "body"), [(True, "ü"), (False, bytearray("ü".encode()))])
def test_text_stays_bytes_where_it_is_not_to_be_decoded(
    envelope: str, content_type: str, decodes: bool, body: object
) -> None:
    assert seen(envelope, whole("ü".encode(), content_type), decodes=decodes) == {"body": body}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_json_in_another_encoding_than_utf_8_stays_bytes(encoding: str) -> None:
    body = '{"a": "ü"}'.encode(encoding)

    assert seen("none", whole(body, "application/json"), decodes=True) == {"body": bytearray(body)}


@pytest.mark.parametrize("envelope", ["kserve", "json"])
def test_torchserves_own_api_takes_json_as_python_writes_it(envelope: str) -> None:
    rows: list[Any] = []

    def handle(data: list[Any], _: Any) -> list[Any]:
        rows.extend(data)
        return data

    result = run(envelope, handle, "raw", [whole(b'{"instances": [NaN, -Infinity, 1e400, "\\ud800"]}')])

    assert str(rows) == r"[nan, -inf, inf, '\ud800']"
    assert json.loads(result.responses[0].body, parse_constant=str)["predictions"] == [
        "NaN",
        "-Infinity",
        "Infinity",
        "\ud800",
    ]


def test_tensors_of_torchserves_own_api_may_be_no_numbers() -> None:
    body = b'{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [NaN, 1]}]}'

    assert str(seen("kservev2", whole(body), decodes=True)["data"]) == "[nan, 1.0]"
