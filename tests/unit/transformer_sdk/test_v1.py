"""The v1 protocol's two functions."""

from __future__ import annotations

import pytest

from transformer_sdk.errors import InvalidInput
from transformer_sdk.protocol import v1


def test_instances_come_out_of_a_request() -> None:
    assert v1.decode_request(b'{"instances": [{"data": "x"}, 1], "parameters": {}}') == [{"data": "x"}, 1]


def test_predictions_go_into_a_response() -> None:
    assert v1.encode_response([4, "x"]) == b'{"predictions":[4,"x"]}'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", 'The request body is empty; send {"instances": [...]}.'),
        (b'{\n"instances": [1,]}', "The request body is not valid JSON: .*line 2, column 16"),
        (b"[1]", 'The request body is a JSON list, not an object; send {"instances": [...]}.'),
        (b"null", "The request body is a JSON null, not an object"),
        (b'"x"', "The request body is a JSON string, not an object"),
        (b"true", "The request body is a JSON boolean, not an object"),
        (b'{"inputs": []}', 'The request has no "instances"; send {"instances": [...]}.'),
        (b'{"instances": {}}', '"instances" is a JSON object, not a list'),
        (b'{"instances": 3}', '"instances" is a JSON number, not a list'),
    ],
)
def test_what_is_wrong_with_a_body_is_said(body: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message.replace("[...]", r"\[\.\.\.\]")) as raised:
        v1.decode_request(body)
    assert raised.value.status == 400
