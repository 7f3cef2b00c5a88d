"""What a shape states is bounded by the data that a request carries, in every form that tensors have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import orjson
import pytest

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_PARAMETERS, MAX_TENSORS
from data_plane.protocol.v2 import grpc, rest, shapes
from data_plane.protocol.v2 import open_inference_pb2 as pb
from transformer_sdk.kserve import InferInput
from transformer_sdk.kserve.errors import InvalidInput as HookInvalidInput

Read = Callable[[list[int], str], object]


def by_json(shape: list[int], datatype: str) -> object:
    return rest.decode_request(
        orjson.dumps({"inputs": [{"name": "x", "datatype": datatype, "shape": shape, "data": []}]})
    )


def by_binary_data(shape: list[int], datatype: str) -> object:
    tensor = {"name": "x", "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": 0}}
    text = orjson.dumps({"inputs": [tensor]})
    return rest.decode_request(text, len(text))


def by_typed_contents(shape: list[int], datatype: str) -> object:
    message = pb.ModelInferRequest(model_name="m")
    message.inputs.add(name="x", datatype=datatype, shape=shape)
    return grpc.request_from_proto(message)


def by_raw_contents(shape: list[int], datatype: str) -> object:
    message = pb.ModelInferRequest(model_name="m", raw_input_contents=[b""])
    message.inputs.add(name="x", datatype=datatype, shape=shape)
    return grpc.request_from_proto(message)


@pytest.mark.parametrize("read", [by_json, by_binary_data, by_typed_contents, by_raw_contents])
@pytest.mark.parametrize("datatype", ["FP32", "BOOL", "BYTES"])
@pytest.mark.parametrize("shape", [[10**9, 0], [10**9, -1], [1, 10**9, 0], [10**5, 10**4, 0, 7], [2000, 0]], ids=str)
def test_rows_that_nothing_is_sent_for_are_refused(read: Read, datatype: str, shape: list[int]) -> None:
    with pytest.raises(InvalidRequest, match=r"nested lists for 0 elements; 1024 are served|no whole size for the -1"):
        read(shape, datatype)


@pytest.mark.parametrize("read", [by_json, by_binary_data, by_typed_contents, by_raw_contents])
@pytest.mark.parametrize("shape", [[0], [0, 784], [0, 10**9], [1000, 0], [3, 0, 5]], ids=str)
def test_a_few_rows_may_be_empty(read: Read, shape: list[int]) -> None:
    assert read(shape, "FP32")


def test_rows_within_rows_of_one_element_are_bounded() -> None:
    with pytest.raises(InvalidRequest, match="1240001 nested lists for 20000 elements; 160000 are served"):
        shapes.agreed("x", [20_000, *[1] * 62], 20_000)


def test_a_tensor_is_a_bounded_number_of_lists_however_much_it_carries() -> None:
    with pytest.raises(InvalidRequest, match="2000001 nested lists for 2000000 elements; 2000000 are served"):
        shapes.agreed("x", [2_000_000, 1], 2_000_000)


@pytest.mark.parametrize(
    "shape",
    [[], [6_000_000], [1_600_000, 1], [1_000_000, 2], [8, 2048, 1, 1], [1, 3, 512, 512], [100, 1, 1, 1, 1], [1] * 64],
    ids=str,
)
def test_shapes_that_models_have_are_served(shape: list[int]) -> None:
    assert shapes.agreed("x", shape, int(np.prod(shape))) == tuple(shape)


def test_an_input_of_a_hook_is_bounded_too() -> None:
    for one in (InferInput("x", [10**6, 0], "BYTES", []), InferInput("x", [10**6, 0], "FP32", [])):
        with pytest.raises(HookInvalidInput, match="1000001 nested lists for 0 elements"):
            one.as_numpy()


@pytest.mark.parametrize("what", ["inputs", "outputs"])
def test_more_tensors_than_are_served_are_refused(what: str) -> None:
    one = {"name": "x", "datatype": "FP32", "shape": [0], "data": []}
    many = [{**one, "name": str(index)} for index in range(MAX_TENSORS + 1)]
    message = pb.ModelInferRequest(model_name="m")
    for each in many:
        getattr(message, what).add(name=each["name"])

    with pytest.raises(InvalidRequest, match=rf"length <= {MAX_TENSORS} - at `\$.{what}`"):
        rest.decode_request(orjson.dumps({"inputs": [one], what: many}))
    with pytest.raises(InvalidRequest, match=f"has {MAX_TENSORS + 1} {what}; at most {MAX_TENSORS} are served"):
        grpc.request_from_proto(message)


def test_more_parameters_than_are_served_are_refused() -> None:
    many = {str(index): True for index in range(MAX_PARAMETERS + 1)}
    tensor = {"name": "x", "datatype": "FP32", "shape": [0], "data": [], "parameters": many}
    message = pb.ModelInferRequest(model_name="m")
    only = message.inputs.add(name="x", datatype="FP32", shape=[0])
    for name in many:
        only.parameters[name].bool_param = True

    with pytest.raises(InvalidRequest, match=rf"length <= {MAX_PARAMETERS} - at `\$.inputs\[0\].parameters`"):
        rest.decode_request(orjson.dumps({"inputs": [tensor]}))
    with pytest.raises(InvalidRequest, match=f"at most {MAX_PARAMETERS} are served"):
        grpc.request_from_proto(message)
