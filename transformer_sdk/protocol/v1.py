"""The v1 protocol: `{"instances": [...]}` in, `{"predictions": [...]}` out. Pure.

The Content-Type is never asked: `curl -T file` sends none.
"""

from __future__ import annotations

from typing import Any

import orjson

from transformer_sdk.errors import InvalidInput

_FORM = '{"instances": [...]}'


def decode_request(body: bytes) -> list[Any]:
    """The instances of a request."""
    if not body:
        raise InvalidInput(f"The request body is empty; send {_FORM}.")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(
            f"The request body is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})."
        ) from error
    if not isinstance(document, dict):
        raise InvalidInput(f"The request body is a JSON {_json_type(document)}, not an object; send {_FORM}.")
    if "instances" not in document:
        raise InvalidInput(f'The request has no "instances"; send {_FORM}.')
    instances = document["instances"]
    if not isinstance(instances, list):
        raise InvalidInput(f'"instances" is a JSON {_json_type(instances)}, not a list; send {_FORM}.')
    return instances


def encode_response(predictions: list[Any]) -> bytes:
    """The body of an answer; raises TypeError for what JSON cannot hold."""
    return orjson.dumps({"predictions": predictions})


def _json_type(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "list"
        case _:
            return "object"
