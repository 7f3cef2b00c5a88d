"""Every datatype's extremes, in each form on the wire: the array that a model gets and the numbers that come back."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from data_plane.protocol.v2 import grpc, rest
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.datatypes import DATATYPES
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from tests.support.v2_rest import decode_response, encode_request

_NUMBERS = [each for each in DATATYPES.values() if not each.has_wire_form]
_FORMS = ("json", "binary", "typed", "raw")


def _extremes(dtype: np.dtype[Any]) -> list[Any]:
    if dtype.kind == "b":
        return [True, False]
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        return [limits.max.item(), limits.min.item(), limits.smallest_subnormal.item(), -0.0, 0.1]
    return [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1]


def _arrived(form: str, tensor: Tensor) -> Tensor:
    request = TensorRequest((tensor,), parameters={"binary_data_output": form == "binary"})
    if form in ("json", "binary"):
        return rest.decode_request(*encode_request(request, binary=form == "binary")).inputs[0]
    message = grpc.request_to_proto(request, "m", raw=form == "raw").SerializeToString()
    return grpc.request_from_proto(pb.ModelInferRequest.FromString(message)).inputs[0]


def _answered(form: str, tensor: Tensor) -> Tensor:
    response = TensorResponse("m", None, (tensor,))
    if form in ("json", "binary"):
        asked = TensorRequest((tensor,), parameters={"binary_data_output": form == "binary"})
        return decode_response(*rest.encode_response(response, asked)).outputs[0]
    message = grpc.response_to_proto(response, raw=form == "raw").SerializeToString()
    return grpc.response_from_proto(pb.ModelInferResponse.FromString(message)).outputs[0]


@pytest.mark.parametrize("shape", [(-1,), (-1, 1), (0, 3)], ids=str)
@pytest.mark.parametrize(
    ("datatype", "form"),
    [(each.name, form) for each in _NUMBERS for form in _FORMS if each.contents or form != "typed"],
)
def test_extremes_arrive_and_return_as_numpy_has_them(datatype: str, shape: tuple[int, ...], form: str) -> None:
    dtype = np.dtype(DATATYPES[datatype].torch)
    array = np.array([] if 0 in shape else _extremes(dtype), dtype).reshape(shape)

    arrived = _arrived(form, Tensor.from_numpy("x", array))

    for found in (arrived, _answered(form, arrived)):
        assert (found.datatype, found.shape, found.data.dtype.type) == (datatype, array.shape, dtype.type)
        assert found.data.tobytes() == array.tobytes()


@pytest.mark.parametrize("each", _NUMBERS, ids=lambda each: each.name)
def test_scalars_of_a_tensor_are_json(each: Any) -> None:
    """orjson knows numpy's named types, and not the others of the same memory (longlong)."""
    [scalar] = _arrived("json", Tensor.from_numpy("x", np.array([1], each.torch))).data
    if each.name == "BOOL":
        scalar = bool(scalar)
    assert orjson.loads(orjson.dumps({"x": scalar}, option=orjson.OPT_SERIALIZE_NUMPY)) == {"x": 1}
