"""The JSON documents of the Open Inference Protocol: their fields, and the length of the JSON in a body. Pure.

This module does not import numpy: code that only forwards tensors needs no arrays.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
import orjson

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_PARAMETERS, MAX_TENSORS
from data_plane.messages import Headers, Response, header
from data_plane.protocol import json_text

JSON_LENGTH = b"inference-header-content-length"

_MAX_DIGITS = 20  # Python does not convert numbers of arbitrary length

Parameter = bool | int | float | str
Parameters = Annotated[dict[str, Parameter], msgspec.Meta(max_length=MAX_PARAMETERS)]
AnyParameters = Annotated[dict[str, Any], msgspec.Meta(max_length=MAX_PARAMETERS)]
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


class ResponseTensor(TensorDocument):
    parameters: AnyParameters | None = None


class ResponseDocument(msgspec.Struct):
    """A response of any server: as KServe reads it, which is less strict than the protocol."""

    outputs: Annotated[list[ResponseTensor], msgspec.Meta(max_length=MAX_TENSORS)]
    model_name: str = ""
    model_version: str | int | None = None
    id: str | int | None = None
    parameters: AnyParameters | None = None


# msgspec compiles a type at its first use, and crashes if two threads do so at once; hooks may run in threads.
for _form in (RequestDocument, ResponseDocument):
    msgspec.json.Decoder(_form)


def json_length(headers: Headers) -> int | None:
    """Return the length of the JSON in a body from its header, or None without one; raises InvalidRequest."""
    value = header(headers, JSON_LENGTH)
    if value is None:
        return None
    if not value.isdigit() or len(value) > _MAX_DIGITS:
        shown = value[:_MAX_DIGITS].decode("latin-1")
        raise InvalidRequest(
            f"The header {JSON_LENGTH.decode()} is {shown!r}; it must be a number of bytes up to the body's."
        )
    return int(value)


def split_body(body: bytes, json_length: int | None) -> tuple[bytes, memoryview]:
    """Split a body into its JSON and the binary data after it, by the header's value; raises InvalidRequest."""
    if json_length is None:
        return body, memoryview(b"")
    if not 0 <= json_length <= len(body):
        raise InvalidRequest(
            f"The header {JSON_LENGTH.decode()} says {json_length}, but the body has {len(body)} bytes; "
            "it is the length of the JSON that the body starts with."
        )
    return body[:json_length], memoryview(body)[json_length:]


def body_response(body: bytes, json_length: int | None) -> Response:
    """Return the response with a body of the protocol; with binary data, it says where that begins."""
    if json_length is None:
        return Response(body)
    headers: Headers = ((JSON_LENGTH, str(json_length).encode()),)
    return Response(body, content_type=b"application/octet-stream", headers=headers)


_FORM = '{"inputs": [{"name": ..., "datatype": ..., "shape": [...], "data": [...]}]}'


class NotV2(InvalidRequest):
    """The body has nothing of a request of the v2 protocol; it may be one of another."""


def parse(text: bytes, form: type[_T], model: str = "", *, takes_files: bool = True) -> _T:
    """Decode and check the document in `text`, for a request to `model`; raises InvalidRequest.

    `takes_files`: whether the server has another path for them, TorchServe's.
    """
    document = None
    is_request = form is RequestDocument
    if is_request and not text:
        raise NotV2(f"The request body is empty; send {_FORM}.")
    try:
        # orjson parses numbers fastest; the error messages of msgspec name the place.
        document = json_text.loads(text)
        return msgspec.convert(document, form)
    except orjson.JSONDecodeError as error:
        raise NotV2(
            f"The body is {json_text.fault(text, error)}.{json_text.advice_on(text, takes_files=takes_files)}"
        ) from error
    except msgspec.ValidationError as error:
        names = document.keys() & {"instances", "inputs"} if isinstance(document, dict) else set()
        if is_request and names == {"instances"}:
            raise NotV2(
                f"The request is of the v1 protocol, and this path takes v2; send it to /v1/models/{model}:predict."
            ) from error
        refused = InvalidRequest if "inputs" in names else NotV2
        advice = f"; send {_FORM}" if is_request else ""
        raise refused(f"The JSON is not of the v2 protocol: {error}{advice}.") from error


def checked_size(tensor: TensorDocument, size: Parameter, left: int) -> int:
    """Check and return `binary_data_size`, with `left` bytes of binary data left; raises InvalidRequest."""
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
