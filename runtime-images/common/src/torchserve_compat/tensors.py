"""Conversion between the tensors of the v2 protocol and the values that handlers take and return.

A tensor is sent to the handler's process as one part: its name, its type and shape as JSON, and its bytes.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

import msgspec
import numpy as np
import orjson

from data_plane.errors import InvalidRequest, UnprocessableInput
from data_plane.messages import Headers
from data_plane.protocol.v2.document import Parameter, Parameters
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse
from data_plane.protocol.v2.shapes import check_lists
from data_plane.protocol.v2.tensors import Array, Tensor, from_buffer, from_values, to_buffer
from torchserve_compat.frames import HandlerRequest, RequestPart
from torchserve_compat.values import HandlerOutputError, encode_indented, encode_json, loads

CONTENT_TYPE = "application/vnd.isvc.tensors"

# The name of a handler's single output, and of the input of a handler of tensors that gets instances.
_PREDICTIONS = "predictions"
_INSTANCES = "instances"
# A single input with one of these names stands for the key that TorchServe's handlers look for in an instance.
_KEYS = ("data", "body")

_ROUNDED = 2**53  # FP64 has every whole number below it
_MAX_UINT64 = 2**64 - 1
_PLAIN = {str, int, float, bool, NoneType}


class _ResponseFrame(msgspec.Struct, frozen=True, array_like=True):
    tensors: list[RequestPart]
    parameters: Parameters


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_ResponseFrame)


def frame(request: TensorRequest, id: str, headers: Headers) -> HandlerRequest:  # noqa: A002 - the protocol's word
    """Return a request as it is sent to the handler; `id` is the id of a request without one."""
    outputs = [{"name": one.name, **_given(one.parameters)} for one in request.outputs]
    more = {**_given(request.parameters), **({"outputs": outputs} if outputs else {})}
    return HandlerRequest(request.id or id, headers, [_part(tensor) for tensor in request.inputs], more or None)


def instances(parts: Sequence[RequestPart]) -> list[Any]:
    """Return input tensors as instances: one for each row, with several inputs a dictionary by name.

    Raises UnprocessableInput if the inputs have different numbers of rows.
    """
    tensors = [_tensor(part) for part in parts]
    columns = {tensor.name: _list(tensor) if tensor.shape else [_list(tensor)] for tensor in tensors}
    (first, *others) = columns
    if any(len(columns[name]) != len(columns[first]) for name in others):
        sizes = ", ".join(f'"{name}" has {len(column)}' for name, column in columns.items())
        raise UnprocessableInput(f"The inputs must have as many rows each: {sizes}.")
    if not others and first not in _KEYS:
        return columns[first]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def encode_predictions(results: list[Any]) -> bytes:
    """Encode predictions as tensors: one tensor, or one for each key if they are dictionaries."""
    plain = [_plain(one) for one in results]
    if plain and all(isinstance(one, dict) and one.keys() == plain[0].keys() for one in plain):
        return _encode([_of_values(name, [one[name] for one in plain]) for name in plain[0]])
    return _encode([_of_values(_PREDICTIONS, plain)])


def response(body: bytes, request: TensorRequest, model: str, version: str) -> TensorResponse:
    """Return the TensorResponse in a handler's response; a single output gets the name that the client requests."""
    found = _decoder.decode(body)
    tensors = tuple(map(_tensor, found.tensors))
    if len(tensors) == len(request.outputs) == 1:
        tensors = (dataclasses.replace(tensors[0], name=request.outputs[0].name),)
    return TensorResponse(model, version, tensors, request.id, found.parameters)


def message(body: bytes) -> str:
    """Return the message of an error response: its text if it has only that, else its tensors' values as JSON."""
    values = {tensor.name: _list(tensor) for tensor in map(_tensor, _decoder.decode(body).tensors)}
    match list(values.values()):
        case [[str(text)]]:
            return text
    return orjson.dumps(values, default=lambda one: one.decode("utf-8", "replace")).decode()


def document(request: HandlerRequest) -> dict[str, Any]:
    """Return a request as the JSON that a client would have sent, with flat data."""
    inputs = [_described(tensor, _list(tensor, flat=True)) for tensor in map(_tensor, request.parts)]
    return {"id": request.id, **(request.more or {}), "inputs": inputs}


def encode_result(result: Any) -> bytes:
    """Encode a result, the JSON of a response or predictions, as tensors; raises HandlerOutputError.

    Text is parsed if it is a JSON object or list; any other text stays text, even digits.
    """
    if isinstance(result, bytes | bytearray | str):
        with contextlib.suppress(ValueError):
            read = loads(result.encode() if isinstance(result, str) else bytes(result))
            result = read if isinstance(read, dict | list) else result
    if isinstance(result, dict) and isinstance(result.get("outputs"), list):
        try:
            outputs = [dataclasses.replace(_of_json(one), parameters=_parameters(one)) for one in result["outputs"]]
            return _encode(outputs, _parameters(result))
        except (KeyError, TypeError, InvalidRequest, msgspec.ValidationError) as error:
            why = f"one lacks {error}" if isinstance(error, KeyError) else error
            raise HandlerOutputError(f"The handler's outputs are not tensors: {why}") from error
    result = result.tolist() if hasattr(result, "tolist") else result
    return encode_predictions(result if isinstance(result, list) else [result])


def inputs(request: HandlerRequest) -> list[dict[str, Any]]:
    """Return input tensors as TorchServe's kservev2 envelope gives them to a handler.

    Each has the request's parameters in addition to its own, because the handler gets only the inputs.
    """
    of_all = (request.more or {}).get("parameters", {})
    tensors = map(_tensor, request.parts)
    return [_input(dataclasses.replace(one, parameters={**of_all, **one.parameters})) for one in tensors]


def inputs_of_instances(rows: list[Any]) -> list[dict[str, Any]]:
    """Return instances as the single input of a handler of tensors."""
    tensor = _of_values(_INSTANCES, rows)
    return [_described(tensor, _list(tensor))]


def of_document(request: HandlerRequest) -> tuple[HandlerRequest, list[dict[str, Any]]] | None:
    """Return a request whose body is a v2 request, with the body's id, and its inputs; None for any other body."""
    body = next((part.value for part in request.parts if part.name in ("data", "body")), b"")
    try:
        document = loads(body)
        inputs = [{**one, **_input(_of_json(one))} for one in document["inputs"]]
    except (ValueError, KeyError, TypeError, InvalidRequest):
        return None
    id_ = document.get("id")
    return (msgspec.structs.replace(request, id=id_) if isinstance(id_, str) and id_.strip() else request), inputs


def encode_outputs(results: Sequence[Any], names: Sequence[str]) -> bytes:
    """Encode outputs as tensors, named after the first inputs, as in TorchServe's kservev2 envelope."""
    return _encode([_flattened(name, one) for name, one in zip(names, results, strict=False)])


def encode_document(results: Sequence[Any], names: Sequence[str], request: HandlerRequest, context: Any) -> bytes:
    model = context.manifest["model"]
    response = {
        "id": request.id,
        "model_name": model.get("modelName"),
        "model_version": model.get("modelVersion"),
        "outputs": [_output(name, one) for name, one in zip(names, results, strict=False)],
    }
    return encode_indented(response)


def _encode(tensors: Sequence[Tensor], parameters: Parameters | None = None) -> bytes:
    """Encode a handler's outputs; raises HandlerOutputError for a shape that JSON cannot represent."""
    try:
        for tensor in tensors:
            check_lists(tensor.name, tensor.shape)
    except InvalidRequest as error:
        raise HandlerOutputError(f"The handler's outputs cannot be sent: {error}") from error
    return _encoder.encode(_ResponseFrame([_part(tensor) for tensor in tensors], parameters or {}))


def _part(tensor: Tensor) -> RequestPart:
    kind = orjson.dumps([tensor.datatype, tensor.shape, dict(tensor.parameters)])
    return RequestPart(tensor.name, kind.decode(), to_buffer(tensor))


def _tensor(part: RequestPart) -> Tensor:
    datatype, shape, parameters = orjson.loads(part.content_type)
    return from_buffer(part.name, datatype, shape, buffer=memoryview(part.value), parameters=parameters)


def _list(tensor: Tensor, *, flat: bool = False) -> Any:
    values = (tensor.data.reshape(-1) if flat else tensor.data).tolist()
    return _text(values) if tensor.datatype == "BYTES" else values


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(one) for one in value]
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        return value


def _of_json(one: Mapping[str, Any]) -> Tensor:
    name, datatype, shape, data = (one[key] for key in ("name", "datatype", "shape", "data"))
    try:
        return from_values(name, datatype, shape, values=_flat(data), parameters={})
    except (TypeError, InvalidRequest):  # of tuples, arrays or numpy's scalars, perhaps
        return from_values(name, datatype, shape, values=_flat(_plain(data)), parameters={})


def _parameters(document: Mapping[str, Any]) -> Parameters:
    """Return the parameters; raises msgspec.ValidationError for types that the protocol does not have."""
    return msgspec.convert(document.get("parameters") or {}, Parameters)


def _given(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    return {"parameters": dict(parameters)} if parameters else {}


def _input(tensor: Tensor) -> dict[str, Any]:
    values = _list(tensor)
    if tensor.datatype == "BYTES":
        while isinstance(values, list) and values:  # TorchServe passes only the first element
            values = values[0]
    return _described(tensor, values)


def _described(tensor: Tensor, data: Any) -> dict[str, Any]:
    described = {"name": tensor.name, "shape": list(tensor.shape), "datatype": tensor.datatype, "data": data}
    return {**described, **_given(tensor.parameters)}


def _of_values(name: str, values: list[Any]) -> Tensor:
    return Tensor.from_numpy(name, _array(values))


def _flattened(name: str, result: Any) -> Tensor:
    return Tensor.from_numpy(name, _array(_listed(result)).reshape(-1))


def _output(name: str, result: Any) -> Mapping[str, Any]:
    """Return an output as JSON for TorchServe's API: values that are not numbers stay objects."""
    tensor = _flattened(name, result)
    data = _list(tensor) if tensor.datatype != "BYTES" else np.array(_plain(_listed(result)), dtype=object).reshape(-1)
    return {"name": name, "datatype": tensor.datatype, "data": list(data), "shape": list(tensor.shape)}


def _listed(result: Any) -> Any:
    result = result.tolist() if hasattr(result, "tolist") else result
    return result if isinstance(result, list | tuple) else [result]


def _array(values: Sequence[Any]) -> Array:
    """Return values as an array: numbers as numbers, anything else as text or as the JSON of each.

    None among numbers becomes NaN, as in KServe's servers (numpy and pandas do this); JSON writes both as null. Whole
    numbers that floating-point numbers would round stay whole, or become text.
    """
    array = _numbers(values)
    if array is not None and (array.dtype.kind != "f" or not (np.abs(array) >= _ROUNDED).any()):
        return array
    plain = _plain(values)
    objects = np.array(plain, dtype=object)  # numpy's text type has a fixed width and loses trailing NULs
    kinds = set(map(type, objects.flat))
    if kinds <= {str, bytes}:
        return objects
    if kinds <= {int, float, NoneType} and kinds != {NoneType}:
        if kinds == {int} and all(0 <= one <= _MAX_UINT64 for one in objects.flat):
            return objects.astype(np.uint64)
        if not any(type(one) is int and _is_rounded(one) for one in objects.flat):
            return objects.astype(np.float64) if array is None else array
    return np.array([one if isinstance(one, str | bytes) else encode_json(one).decode() for one in plain], dtype=object)


def _numbers(values: Sequence[Any]) -> Array | None:
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        return None
    return array if array.dtype.kind in "biuf" else None


def _is_rounded(number: int) -> bool:
    """Return whether a floating-point number would not be this whole number."""
    try:
        return int(float(number)) != number
    except OverflowError:
        return True


def _plain(value: Any) -> Any:
    """Return a value as the Python objects of its JSON; bytes, NaN and infinity, which JSON lacks, stay."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list | tuple):
        return [one if type(one) in _PLAIN else _plain(one) for one in value]
    if isinstance(value, dict):
        return {_key(key): _plain(one) for key, one in value.items()}
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return orjson.loads(encode_json(value))


def _key(key: Any) -> str:
    if type(key) is str:
        return key
    (written,) = orjson.loads(encode_json({key: None}))
    return str(written)


def _flat(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError(f'"data" is a {type(data).__name__}; return a list')
    flat: list[Any] = data
    while flat and isinstance(flat[0], list):
        flat = [one for row in flat for one in row]
    return flat
