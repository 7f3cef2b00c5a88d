"""The v1 protocol: what is taken, what is refused and why."""

from __future__ import annotations

import pytest

from data_plane.errors import InvalidRequest
from data_plane.protocol import v1


def test_instances_are_counted_and_left_as_they_are() -> None:
    body = b'{"instances": [{"data": "x"}, 1.50, 12345678901234567890123], "parameters": {}}'

    assert v1.decode_request(body) == v1.PredictRequest(body, 3)


def test_kserves_other_name_for_instances_is_understood() -> None:
    assert v1.decode_request(b'{"inputs": [1, 2]}').size == 2
    assert v1.decode_request(b'{"inputs": [1, 2], "instances": [3]}').size == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", 'The request body is empty; send {"instances": [...]}.'),
        (b'{\n"instances": [1,]}', "The request body is not valid JSON: .*line 2, column 16"),
        (b"[1]", 'The request body is a JSON list, not an object; send {"instances": [...]}.'),
        (b"null", "The request body is a JSON null, not an object"),
        (b'"x"', "The request body is a JSON string, not an object"),
        (b"true", "The request body is a JSON boolean, not an object"),
        (b"{}", 'The request has no "instances"; send {"instances": [...]}.'),
        (b'{"inputs": {}}', '"inputs" is a JSON object, not a list'),
        (b'{"instances": [1', "The request body is not valid JSON: .*line 1"),
        (b'{"instances": [NaN]}', "The request body is not valid JSON"),
        (b'{"instances": [01]}', "The request body is not valid JSON: number with leading zero"),
        (b'{"instances": ["\xff"]}', "The request body is not valid JSON: it is not in UTF-8"),
        (
            b'{"instances": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "The request body is not valid JSON: depth limit",
        ),
        (b'{"instances": {}}', '"instances" is a JSON object, not a list'),
        (b'{"instances": 3}', '"instances" is a JSON number, not a list'),
    ],
)
def test_what_is_wrong_with_a_body_is_said(body: bytes, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message.replace("[...]", r"\[\.\.\.\]")) as raised:
        v1.decode_request(body)
    assert raised.value.status == 400
