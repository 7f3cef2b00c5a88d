"""The JSON documents of the Open Inference Protocol: their fields, and where the JSON of a body ends. Pure.

Without numpy: those who hand tensors on need not make arrays of them.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
import orjson

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_PARAMETERS, MAX_TENSORS
from data_plane.messages import Headers, header
from data_plane.protocol import json_text

JSON_LENGTH = b"inference-header-content-length"

_MAX_DIGITS = 20  # Python reads no number of any length

Parameter = bool | int | float | str
Parameters = Annotated[dict[str, Parameter], msgspec.Meta(max_length=MAX_PARAMETERS)]
_T = TypeVar("_T")


class TensorDocument(msgspec.Struct):
    name: str
    datatype: str
    shape: tuple[int, ...]
    data: Any = None
    parameters: Parameters | None = None


class OutputDocument(msgspec.Struct):
    name: str
    parameters: Parameters | None = None


class RequestDocument(msgspec.Struct):
    inputs: Annotated[list[TensorDocument], msgspec.Meta(max_length=MAX_TENSORS)]
    id: str | None = None
    parameters: Parameters | None = None
    outputs: Annotated[list[OutputDocument], msgspec.Meta(max_length=MAX_TENSORS)] | None = None


class ResponseDocument(msgspec.Struct):
    model_name: str
    outputs: Annotated[list[TensorDocument], msgspec.Meta(max_length=MAX_TENSORS)]
    model_version: str | None = None
    id: str | None = None
    parameters: Parameters | None = None


# msgspec prepares a type at its first use, and two threads that do so at once crash; hooks may run in threads.
for _form in (RequestDocument, ResponseDocument):
    msgspec.json.Decoder(_form)


def json_length(headers: Headers) -> int | None:
    """How much of a body is JSON, where a header says so; raises InvalidRequest."""
    value = header(headers, JSON_LENGTH)
    if value is None:
        return None
    if not value.isdigit() or len(value) > _MAX_DIGITS:
        shown = value[:_MAX_DIGITS].decode("latin-1")
        raise InvalidRequest(
            f"The header {JSON_LENGTH.decode()} is {shown!r}; it must be a number of bytes up to the body's."
        )
    return int(value)


def divide(body: bytes, json_length: int | None) -> tuple[bytes, memoryview]:
    """The JSON of a body, and what follows it; `json_length` is the header's value. Raises InvalidRequest."""
    if json_length is None:
        return body, memoryview(b"")
    if not 0 <= json_length <= len(body):
        raise InvalidRequest(
            f"The header {JSON_LENGTH.decode()} says {json_length}, but the body has {len(body)} bytes; "
            "it is the length of the JSON that the body starts with."
        )
    return body[:json_length], memoryview(body)[json_length:]


def parse(text: bytes, form: type[_T]) -> _T:
    """The document in `text`; raises InvalidRequest."""
    try:
        # orjson to parse, for its speed with numbers; msgspec to check, for messages that say where.
        return msgspec.convert(json_text.loads(text), form)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(
            f"The body is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})."
        ) from error
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"The JSON is not of the v2 protocol: {error}.") from error


def checked_size(tensor: TensorDocument, size: Parameter, left: int) -> int:
    """The value of `binary_data_size`, of which `left` bytes may be there; raises InvalidRequest."""
    where = f'Tensor "{tensor.name}"'
    if tensor.data is not None:
        raise InvalidRequest(f"{where} has data and binary_data_size; send one of them.")
    if type(size) is not int or size < 0:
        raise InvalidRequest(f"{where}: binary_data_size is {size!r}; it takes a number of bytes.")
    if size > left:
        raise InvalidRequest(
            f"{where}: binary_data_size is {size}, but {left} bytes are left after the JSON. "
            f"Without the header {JSON_LENGTH.decode()} all of the body is JSON."
        )
    return size
