"""The v1 protocol: `{"instances": [...]}` in, `{"predictions": [...]}` out. Pure.

Instances are checked and counted, not decoded: the code that computes with them decodes them once.
The Content-Type is ignored: `curl -T file` sends none.
"""

from __future__ import annotations

from types import NoneType

import msgspec
import orjson

from data_plane.errors import InvalidRequest
from data_plane.protocol import json_text

_FORM = '{"instances": [...]}'
_TYPES = {
    NoneType: "null", bool: "boolean", int: "number", float: "number", str: "string", list: "list", dict: "object",
}  # fmt: skip


class PredictRequest(msgspec.Struct, frozen=True):
    """A valid body and the number of instances in it."""

    body: bytes
    size: int


class _PredictDocument(msgspec.Struct):
    instances: list[msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET
    inputs: list[msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET  # KServe's alternative name


_decoder = msgspec.json.Decoder(_PredictDocument)


def decode_request(body: bytes, *, takes_files: bool = True) -> PredictRequest:
    """Decode the request in `body`; raises InvalidRequest with the error and its place.

    `takes_files`: whether a body that is not a request may be meant for TorchServe's path, and not come by it.
    """
    try:
        document = _decoder.decode(body)
        if not body.isascii():
            body.decode()  # the decoder does not check strings inside instances
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _explain(body, error, takes_files=takes_files) from error
    instances = document.inputs if document.instances is msgspec.UNSET else document.instances
    if instances is msgspec.UNSET:
        raise InvalidRequest(f'The request has no "instances"; send {_FORM}.')
    return PredictRequest(body, len(instances))


def _explain(body: bytes, error: Exception, *, takes_files: bool) -> InvalidRequest:
    """Return the error for an invalid body; orjson reports the line and column."""
    if not body:
        return InvalidRequest(f"The request body is empty; send {_FORM}.")
    try:
        document = json_text.loads(body)
    except orjson.JSONDecodeError as syntax:
        advice = json_text.advice_on(body, takes_files=takes_files)
        end = f".{advice}" if advice or takes_files else f"; send {_FORM}."
        return InvalidRequest(f"The request body is {json_text.fault(body, syntax)}{end}")
    if not isinstance(document, dict):
        return InvalidRequest(f"The request body is a JSON {_TYPES[type(document)]}, not an object; send {_FORM}.")
    for key in ("instances", "inputs"):
        if key in document and not isinstance(document[key], list):
            return InvalidRequest(f'"{key}" is a JSON {_TYPES[type(document[key])]}, not a list; send {_FORM}.')
    return InvalidRequest(f"The request body cannot be read: {error}.")
