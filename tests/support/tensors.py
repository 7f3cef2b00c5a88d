"""Tensors of every datatype and shape, and a form of them that can be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from data_plane.protocol.v2 import bfloat16, tensors
from data_plane.protocol.v2.datatypes import DATATYPES
from data_plane.protocol.v2.document import Parameter
from data_plane.protocol.v2.requests import OutputRequest, TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor

_NOT_FINITE = 0x7F80  # the exponent of infinities and NaN in BF16

names = st.text(max_size=8)
parameters: st.SearchStrategy[dict[str, Parameter]] = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | names,
    max_size=3,
)


def plain(tensor: Tensor) -> dict[str, Any]:
    """All of a tensor. Bytes stand for the data: NaN is not equal to itself."""
    return {
        "name": tensor.name,
        "datatype": tensor.datatype,
        "shape": tensor.shape,
        "data": list(tensor.data.flat) if tensor.datatype == "BYTES" else tensor.data.tobytes(),
        "dtype": tensor.data.dtype,
        "data shape": tensor.data.shape,
        "parameters": dict(tensor.parameters),
    }


def plain_request(request: TensorRequest) -> tuple[Any, ...]:
    return ([plain(tensor) for tensor in request.inputs], request.id, dict(request.parameters), request.outputs)


@st.composite
def arrays(draw: st.DrawFn, datatype: str, *, json: bool) -> np.ndarray[Any, Any]:
    """What JSON can hold is finite numbers and text."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    if datatype == "BYTES":
        element = st.text(max_size=5).map(str.encode) if json else st.binary(max_size=5)
        array = np.empty(shape, dtype=object)
        array[...] = draw(hnp.arrays(object, shape, elements=element))
        return array
    if datatype == "BF16":
        halves = st.integers(0, 0xFFFF).filter(lambda half: not json or half & _NOT_FINITE != _NOT_FINITE)
        return bfloat16.widen(draw(hnp.arrays(bfloat16.WIRE, shape, elements=halves)))
    wanted = tensors.dtype("x", datatype)
    finite = {"allow_nan": not json, "allow_infinity": not json} if wanted.kind == "f" else {}
    return draw(hnp.arrays(wanted, shape, elements=hnp.from_dtype(wanted, **finite)))


@st.composite
def some_tensors(draw: st.DrawFn, *, json: bool) -> tuple[Tensor, ...]:
    """One to three tensors with names of their own."""
    found = []
    for name in draw(st.lists(names, min_size=1, max_size=3, unique=True)):
        datatype = draw(st.sampled_from(tuple(DATATYPES)))
        data = draw(arrays(datatype, json=json))
        found.append(Tensor(name, datatype, data.shape, data, draw(parameters)))
    return tuple(found)


@st.composite
def requests(draw: st.DrawFn, *, json: bool = False) -> TensorRequest:
    wanted = draw(st.lists(st.builds(OutputRequest, names, parameters), max_size=2, unique_by=lambda one: one.name))
    identity = draw(st.none() | st.text(min_size=1, max_size=8))
    return TensorRequest(draw(some_tensors(json=json)), identity, draw(parameters), tuple(wanted))


@st.composite
def responses(draw: st.DrawFn, *, json: bool = False) -> TensorResponse:
    optional = st.none() | st.text(min_size=1, max_size=8)
    outputs = draw(some_tensors(json=json))
    return TensorResponse(draw(names), draw(optional), outputs, draw(optional), draw(parameters))
