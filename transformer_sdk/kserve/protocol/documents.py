"""Read and write tensors of hooks in HTTP bodies: JSON, followed by the raw bytes of binary tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import orjson

from data_plane.errors import InvalidRequest as BadDocument
from data_plane.protocol.v2 import shapes
from data_plane.protocol.v2.document import TensorDocument, checked_size
from transformer_sdk.kserve.errors import InvalidInput
from transformer_sdk.kserve.protocol import parameters
from transformer_sdk.kserve.protocol.infer_tensor import SIZE, InferOutput, NamedTensor, flat, is_nested, json_values

_T = TypeVar("_T", bound=NamedTensor)


def read(kind: type[_T], described: Iterable[TensorDocument], binary: memoryview) -> list[_T]:
    """Read the tensors of a body; `binary` is the data after its JSON. Raises the SDK's InvalidInput."""
    found, position = [], 0
    for one in described:
        tensor = kind(one.name, one.shape, one.datatype, one.data, one.parameters)
        size = (one.parameters or {}).get(SIZE)
        if size is not None:
            end = position + checked_size(one, size, len(binary) - position)
            tensor.take_raw(binary[position:end], reads_text=True)
            tensor.parameters = {name: value for name, value in (one.parameters or {}).items() if name != SIZE}
            position = end
        elif one.data is None:
            raise BadDocument(f'Tensor "{one.name}" has no "data" and no {SIZE}; send one of them.')
        found.append(tensor)
    return found


def write(tensors: Iterable[tuple[NamedTensor, bool]]) -> tuple[list[dict[str, Any]], list[bytes | memoryview]]:
    """Return the JSON document of each tensor and the buffers of binary ones; raises InvalidInput."""
    described: list[dict[str, Any]] = []
    buffers: list[bytes | memoryview] = []
    for tensor, as_raw in tensors:
        if tensor.data is None:
            raise InvalidInput(f'Tensor "{tensor.name}" has no data.')
        head: dict[str, Any] = {"name": tensor.name, "shape": tensor.shape, "datatype": tensor.datatype}
        own = {name: value for name, value in parameters.values(tensor.parameters).items() if name != SIZE}
        if as_raw:
            buffers.append(_buffer(tensor))
            own[SIZE] = len(buffers[-1])
        if own:
            head["parameters"] = own
        if not as_raw:
            head["data"] = _json(tensor)
        described.append(head)
    return described, buffers


def join(document: dict[str, Any], buffers: list[bytes | memoryview]) -> tuple[bytes | dict[str, Any], int | None]:
    """Return the document; or, with binary tensors, the body and the length of its JSON."""
    if not buffers:
        return document, None
    text = dump(document)
    return b"".join((text, *buffers)), len(text)


def dump(document: Mapping[str, Any]) -> bytes:
    """Encode as JSON; arrays become lists, and numbers and dates as keys become text. Raises TypeError."""
    try:
        return orjson.dumps(document, _plain, orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # the option for other keys makes encoding slower
        return orjson.dumps(document, _plain, orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)


def _plain(value: Any) -> Any:
    """Return an array that orjson does not take, such as a transposed one of numpy or one of torch, as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError  # orjson names the type


def _buffer(tensor: NamedTensor) -> bytes | memoryview:
    from data_plane.protocol.v2 import tensors

    return tensor.raw_data if tensor.raw_data is not None else tensors.to_buffer(tensor.tensor())


def _json(tensor: NamedTensor) -> Any:
    """Return the data for JSON: lists unchanged, those of outputs flat; arrays in the tensor's datatype; bytes as text.

    Raises InvalidInput for an output whose data does not have as many elements as its shape.
    """
    data = tensor.data
    if tensor.datatype == "BYTES" or not isinstance(data, list):
        return json_values(tensor.tensor())
    if not isinstance(tensor, InferOutput):
        return data
    if data and is_nested(data[0]):
        data = list(flat(data))
    shapes.agreed(tensor.name, tensor.shape, len(data))
    return data
