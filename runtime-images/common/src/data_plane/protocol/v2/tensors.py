"""Tensors of the Open Inference Protocol, and conversions of their data.

Values are plain numbers, as in JSON and in protobuf's typed contents. A buffer is the tensor's memory, little-endian.
In a buffer, each element of BYTES follows its length in four bytes, and an element of BF16 has two bytes; it has four
in a tensor's array.
"""

from __future__ import annotations

import itertools
import math
import reprlib
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from data_plane.errors import InvalidRequest
from data_plane.protocol.v2 import bfloat16, shapes
from data_plane.protocol.v2.datatypes import COPIED, DATATYPES
from data_plane.protocol.v2.document import Parameter

Array = np.ndarray[Any, np.dtype[Any]]

_CODES = {each.name: each.code for each in DATATYPES.values() if each.code}
# By numpy's own code: `struct`'s "q" is numpy's longlong there, which has int64's memory, but is another type.
_DTYPES = {datatype: np.dtype(np.dtype("<" + code).str) for datatype, code in _CODES.items()}
_DATATYPES = {(dtype.kind, dtype.itemsize): name for name, dtype in _DTYPES.items() if name not in COPIED}
_VALUES = {"b": tuple[bool, ...], "i": tuple[int, ...], "u": tuple[int, ...], "f": tuple[float, ...]}  # by numpy's kind
_UNFIT = (msgspec.ValidationError, struct.error, OverflowError, TypeError)
_LENGTH = struct.Struct("<I")
_ITEMS = 64 * 1024  # elements that are converted at a time: other threads run in between


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A named array. `data` has the tensor's shape and may be read-only; for BYTES it holds `bytes` objects."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: Array
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @classmethod
    def from_numpy(cls, name: str, data: Array) -> Tensor:
        """Return a tensor of the array's datatype; text becomes BYTES. Raises TypeError for other arrays."""
        if data.dtype.kind in "OSU":
            return cls(name, "BYTES", data.shape, _bytes_array(map(_encoded, data.flat), data.shape))
        if isinstance(data, bfloat16.Numbers):
            return cls(name, "BF16", data.shape, np.asarray(data))
        datatype = _DATATYPES.get((data.dtype.kind, data.dtype.itemsize))
        if datatype is None:
            raise TypeError(f'Tensor "{name}": no datatype of the protocol holds {data.dtype}.')
        return cls(name, datatype, data.shape, data)


def from_values(
    name: str,
    datatype: str,
    shape: Sequence[int],
    *,
    values: Sequence[Any],
    parameters: Mapping[str, Parameter],
) -> Tensor:
    """Return a tensor of values in row-major order; raises InvalidRequest."""
    data = _from_strings(name, values) if datatype == "BYTES" else _from_numbers(name, datatype, values)
    return _shaped(name, datatype, shape, data, parameters)


def from_buffer(
    name: str,
    datatype: str,
    shape: Sequence[int],
    *,
    buffer: memoryview,
    parameters: Mapping[str, Parameter],
) -> Tensor:
    """Return a tensor over a buffer, which is copied for BYTES and BF16 only; raises InvalidRequest."""
    if datatype == "BYTES":
        elements = _split(name, buffer)
        return _shaped(name, datatype, shape, _bytes_array(elements, (len(elements),)), parameters)
    element = bfloat16.WIRE if datatype == "BF16" else dtype(name, datatype)
    if len(buffer) % element.itemsize:
        raise InvalidRequest(
            f'Tensor "{name}": {len(buffer)} bytes of binary data; an element of {datatype} has {element.itemsize}.'
        )
    if datatype == "BOOL" and np.frombuffer(buffer, np.uint8).max(initial=0) > 1:
        raise InvalidRequest(f'Tensor "{name}": the bytes of its binary data are neither 0 nor 1, as BOOL\'s are.')
    data = np.frombuffer(buffer, element)
    return _shaped(name, datatype, shape, bfloat16.widen(data) if datatype == "BF16" else data, parameters)


def to_flat(tensor: Tensor) -> Array:
    """Return the elements in row-major order, as one contiguous array."""
    wanted = np.dtype(object) if tensor.datatype == "BYTES" else dtype(tensor.name, tensor.datatype)
    return np.ascontiguousarray(tensor.data, dtype=wanted).reshape(-1)


def to_values(tensor: Tensor) -> list[Any]:
    """Return the elements in row-major order, as Python numbers and bytes."""
    flat = tensor.data.reshape(-1)
    return [one for start in range(0, flat.size, _ITEMS) for one in flat[start : start + _ITEMS].tolist()]


def to_buffer(tensor: Tensor) -> bytes:
    """Return the tensor's data in the binary form of the protocol."""
    if tensor.datatype == "BF16":
        return bfloat16.narrow(to_flat(tensor)).tobytes()
    if tensor.datatype != "BYTES":
        return to_flat(tensor).tobytes()
    flat = tensor.data.reshape(-1)
    return b"".join(_joined(flat[start : start + _ITEMS]) for start in range(0, flat.size, _ITEMS))


def _joined(items: Array) -> bytes:
    return b"".join(itertools.chain.from_iterable((_LENGTH.pack(len(item)), item) for item in items))


def dtype(name: str, datatype: str) -> np.dtype[Any]:
    """Return numpy's type for a numeric datatype; raises InvalidRequest, which names the tensor."""
    try:
        return _DTYPES[datatype]
    except KeyError:
        known = ", ".join(DATATYPES)
        raise InvalidRequest(f'Tensor "{name}": there is no datatype "{datatype}"; use one of {known}.') from None


def _shaped(name: str, datatype: str, shape: Sequence[int], flat: Array, parameters: Mapping[str, Parameter]) -> Tensor:
    sizes = shapes.agreed(name, shape, flat.size)
    try:
        return Tensor(name, datatype, sizes, flat.reshape(sizes), parameters)
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(f'Tensor "{name}": shape {reprlib.repr(list(sizes))} is too large: {error}.') from error


def _from_numbers(name: str, datatype: str, values: Sequence[Any]) -> Array:
    dtype(name, datatype)
    try:
        return _converted(datatype, values)
    except _UNFIT:
        raise _refuse(name, datatype, values, lambda some: _converted(datatype, some)) from None


def _converted(datatype: str, values: Sequence[Any]) -> Array:
    """Convert strictly and fast: msgspec rejects strings and booleans as numbers, struct rejects overflows."""
    element = _DTYPES[datatype]
    if len(values) <= _ITEMS:
        packed = _packed(datatype, element, values)
    else:
        starts = range(0, len(values), _ITEMS)
        packed = b"".join(_packed(datatype, element, values[start : start + _ITEMS]) for start in starts)
    numbers = np.frombuffer(packed, element)
    return bfloat16.round_(numbers) if datatype == "BF16" else numbers


def _packed(datatype: str, element: np.dtype[Any], values: Sequence[Any]) -> bytes:
    return struct.pack(f"<{len(values)}{_CODES[datatype]}", *msgspec.convert(values, _VALUES[element.kind]))


def _from_strings(name: str, values: Sequence[Any]) -> Array:
    try:
        return _bytes_array(map(_encoded, values), (len(values),))
    except TypeError:
        raise _refuse(name, "BYTES", values, lambda some: list(map(_encoded, some))) from None


def _refuse(
    name: str, datatype: str, values: Sequence[Any], convert: Callable[[Sequence[Any]], object]
) -> InvalidRequest:
    """Return an error that names the first value that `convert` rejects, searched in batches."""
    pieces = ((start, values[start : start + _ITEMS]) for start in range(0, len(values), _ITEMS))
    start, piece = next((start, piece) for start, piece in pieces if not _succeeds(convert, piece))
    index, value = next((index, value) for index, value in enumerate(piece, start) if not _succeeds(convert, [value]))
    return InvalidRequest(
        f'Tensor "{name}": element {index} is {reprlib.repr(value)}; {datatype} takes {_domain(datatype)}.'
    )


def _succeeds(convert: Callable[[Sequence[Any]], object], values: Sequence[Any]) -> bool:
    try:
        convert(values)
    except _UNFIT:
        return False
    return True


def _domain(datatype: str) -> str:
    if datatype == "BYTES":
        return "strings"
    if datatype == "BOOL":
        return "true and false"
    element = _DTYPES[datatype]
    if element.kind == "f":
        largest = bfloat16.MAX if datatype == "BF16" else np.finfo(element).max
        return f"numbers from {-largest:.8g} to {largest:.8g}"
    return f"whole numbers from {np.iinfo(element).min} to {np.iinfo(element).max}"


def _encoded(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"BYTES holds text and bytes, not {type(value).__name__}.")


def _bytes_array(elements: Any, shape: tuple[int, ...]) -> Array:
    """Return an array of objects; numpy would convert a list of bytes to text of a fixed width."""
    array = np.empty(math.prod(shape), dtype=object)
    array[:] = list(elements)
    return array.reshape(shape)


def _split(name: str, buffer: memoryview) -> list[bytes]:
    elements: list[bytes] = []
    position = 0
    while position < len(buffer):
        start = position + _LENGTH.size
        end = start + _LENGTH.unpack_from(buffer, position)[0] if start <= len(buffer) else start
        if end > len(buffer):
            raise InvalidRequest(
                f'Tensor "{name}": its binary data ends within element {len(elements)}; '
                "each element of BYTES is its length in four bytes, little-endian, and then its own bytes."
            )
        elements.append(bytes(buffer[start:end]))
        position = end
    return elements
