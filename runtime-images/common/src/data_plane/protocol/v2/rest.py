"""The JSON form of the Open Inference Protocol, with its binary tensor extension. Pure.

With the extension a body is JSON, followed by the binary data of the tensors that have a `binary_data_size`; the header
`inference-header-content-length` is the length of the JSON.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from data_plane.errors import InvalidRequest
from data_plane.protocol.v2 import tensors
from data_plane.protocol.v2.document import (
    JSON_LENGTH,
    Parameter,
    Parameters,
    RequestDocument,
    TensorDocument,
    checked_size,
    parse,
    split_body,
)
from data_plane.protocol.v2.requests import OutputRequest, TensorRequest, TensorResponse, wanted_outputs
from data_plane.protocol.v2.tensors import Tensor


def decode_request(body: bytes, json_length: int | None = None, model: str = "") -> TensorRequest:
    """Decode the request in `body` to `model`; `json_length` is the header's value. Raises InvalidRequest."""
    text, binary = split_body(body, json_length)
    document = parse(text, RequestDocument, model)
    return TensorRequest(
        inputs=_read_tensors(document.inputs, binary),
        id=document.id,
        parameters=_checked(document.parameters, "binary_data_output"),
        outputs=tuple(
            OutputRequest(output.name, _checked(output.parameters, "binary_data")) for output in document.outputs or ()
        ),
    )


def encode_response(response: TensorResponse, request: TensorRequest) -> tuple[bytes, int | None]:
    """Return the response's body and, if it has binary data, the length of its JSON.

    Raises InvalidRequest if the response cannot be sent as the client requests it. NaN and infinity, which JSON does
    not have, become null.
    """
    outputs = wanted_outputs(request, response)
    described, buffers = _write_tensors(zip(outputs, _binary_wanted(request, outputs), strict=True))
    document = {
        "model_name": response.model_name,
        **_given(model_version=response.model_version, id=response.id or request.id, parameters=response.parameters),
        "outputs": described,
    }
    return _join(document, buffers)


def _checked(parameters: Parameters | None, flag: str) -> Parameters:
    if parameters and not isinstance(parameters.get(flag, False), bool):
        raise InvalidRequest(f'The parameter "{flag}" is {parameters[flag]!r}; it takes true or false.')
    return parameters or {}


def _read_tensors(described: Sequence[TensorDocument], binary: memoryview) -> tuple[Tensor, ...]:
    found = []
    position = 0
    for tensor in described:
        parameters = tensor.parameters or {}
        size = parameters.pop("binary_data_size", None)
        if size is None:
            found.append(from_json(tensor, parameters))
        else:
            end = position + checked_size(tensor, size, len(binary) - position)
            buffer = binary[position:end]
            found.append(
                tensors.from_buffer(tensor.name, tensor.datatype, tensor.shape, buffer=buffer, parameters=parameters)
            )
            position = end
    if position < len(binary):
        raise InvalidRequest(
            f"{len(binary) - position} bytes follow the last tensor's binary data; the sum of all binary_data_size "
            f"and {JSON_LENGTH.decode()} is the length of the body."
        )
    return tuple(found)


def from_json(tensor: TensorDocument, parameters: Mapping[str, Parameter]) -> Tensor:
    """Return a tensor from JSON data, flat or nested; raises InvalidRequest."""
    if type(tensor.data) is not list:
        raise InvalidRequest(f'Tensor "{tensor.name}" has no list "data", and no binary_data_size either; send one.')
    values, nesting = _flatten(tensor.name, tensor.data)
    decoded = tensors.from_values(tensor.name, tensor.datatype, tensor.shape, values=values, parameters=parameters)
    nested = [size for size in nesting if size != 1]
    if len(nested) > 1 and nested != [size for size in decoded.shape if size != 1]:
        raise InvalidRequest(
            f'Tensor "{tensor.name}": its data is nested as {nesting}, its shape is {list(decoded.shape)}; '
            "make them agree, or send the data flat, row by row."
        )
    return decoded


def _flatten(name: str, data: list[Any]) -> tuple[list[Any], list[int]]:
    """Return the innermost values and the number of elements at each nesting level."""
    values, nesting = data, [len(data)]
    while values and type(values[0]) is list:
        if set(map(type, values)) != {list} or len(sizes := set(map(len, values))) > 1:
            raise InvalidRequest(
                f'Tensor "{name}": its data is uneven at level {len(nesting)} of nesting; '
                "lists of one level have the same length, and no values between them."
            )
        nesting.append(sizes.pop())
        values = list(itertools.chain.from_iterable(values))
    return values, nesting


def _binary_wanted(request: TensorRequest, outputs: Sequence[Tensor]) -> list[bool]:
    all_outputs = bool(request.parameters.get("binary_data_output", False))
    if not request.outputs:
        return [all_outputs] * len(outputs)
    return [bool(wanted.parameters.get("binary_data", all_outputs)) for wanted in request.outputs]


def _write_tensors(tensors_and_binary: Iterable[tuple[Tensor, bool]]) -> tuple[list[dict[str, Any]], list[bytes]]:
    described, buffers = [], []
    for tensor, binary in tensors_and_binary:
        head: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape}
        if binary:
            buffers.append(tensors.to_buffer(tensor))
            described.append({**head, "parameters": {**tensor.parameters, "binary_data_size": len(buffers[-1])}})
        else:
            described.append({**head, **_given(parameters=tensor.parameters), "data": _to_json(tensor)})
    return described, buffers


def _to_json(tensor: Tensor) -> Any:
    flat = tensors.to_flat(tensor)
    if tensor.datatype != "BYTES":
        return flat
    try:
        return [element.decode() for element in flat]
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f'Tensor "{tensor.name}" holds bytes that are not UTF-8, which JSON cannot carry; '
            'ask for it in binary form ("binary_data": true).'
        ) from error


def _join(document: Mapping[str, object], buffers: Sequence[bytes]) -> tuple[bytes, int | None]:
    text = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return (b"".join((text, *buffers)), len(text)) if buffers else (text, None)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
