"""The protobuf form, one behaviour at a time."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from data_plane.errors import InvalidRequest, UpstreamBroken
from data_plane.protocol.v2 import grpc
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import (
    ModelMetadata,
    OutputRequest,
    TensorMetadata,
    TensorRequest,
    TensorResponse,
)
from data_plane.protocol.v2.tensors import Tensor
from tests.support.tensors import plain, plain_request

ROW = np.array([1, 2], dtype=np.float32)


def message(datatype: str = "FP32", shape: tuple[int, ...] = (2,), **contents: Any) -> pb.ModelInferRequest:
    tensor = pb.ModelInferRequest.InferInputTensor(name="x", datatype=datatype, shape=shape)
    if contents:
        tensor.contents.MergeFrom(pb.InferTensorContents(**contents))
    return pb.ModelInferRequest(model_name="m", inputs=[tensor])


def with_raw(request: pb.ModelInferRequest, *raw: bytes) -> pb.ModelInferRequest:
    request.raw_input_contents.extend(raw)
    return request


def test_a_request_comes_out_with_all_that_it_says() -> None:
    said = message(fp32_contents=[1, 2])
    said.id = "42"
    said.parameters["n"].int64_param = -1
    said.parameters["u"].uint64_param = 2**64 - 1
    said.inputs[0].parameters["flag"].bool_param = False
    said.outputs.add(name="y").parameters["scale"].double_param = 0.5
    assert plain_request(grpc.request_from_proto(said)) == plain_request(
        TensorRequest(
            inputs=(Tensor("x", "FP32", (2,), ROW, {"flag": False}),),
            id="42",
            parameters={"n": -1, "u": 2**64 - 1},
            outputs=(OutputRequest("y", {"scale": 0.5}),),
        )
    )


@pytest.mark.parametrize("name", ["", "m", "ä" * 100, "n" * 20_000], ids=["none", "short", "200 bytes", "20 KB"])
@pytest.mark.parametrize("version", ["", "3"])
def test_the_model_of_a_request_is_found_without_reading_the_rest(name: str, version: str) -> None:
    said = with_raw(pb.ModelInferRequest(model_name=name, model_version=version, id="m"), b"raw").SerializeToString()
    assert grpc.addressee(said + b"\xff\xff") == (name, version)


def test_a_model_that_is_not_named_first_is_not_found() -> None:
    later = pb.ModelInferRequest(id="42").SerializeToString() + pb.ModelInferRequest(model_name="m").SerializeToString()
    assert grpc.addressee(later) == ("", "")


def test_raw_contents_are_looked_at_where_they_lie() -> None:
    request = grpc.request_from_proto(with_raw(message(), ROW.tobytes()))
    assert plain(request.inputs[0]) == plain(Tensor("x", "FP32", (2,), ROW))
    assert not request.inputs[0].data.flags.owndata


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (pb.ModelInferRequest(), "The request has no inputs"),
        (message("FLOAT", fp32_contents=[1, 2]), 'Tensor "x": there is no datatype "FLOAT"'),
        (message("FP16"), 'Tensor "x": FP16 has no typed contents; send raw contents.'),
        (message("BF16", fp32_contents=[1, 2]), 'Tensor "x": BF16 has no typed contents; send raw contents.'),
        (message("FP32"), 'Tensor "x": shape [2] has 2 elements, the data has 0'),
        (message(int_contents=[1, 2]), 'Tensor "x" is FP32 and has int_contents; FP32 goes in fp32_contents.'),
        (message("INT8", int_contents=[1, 128]), "element 1 is 128; INT8 takes whole numbers from -128 to 127."),
        (message("UINT16", uint_contents=[1, 2**16]), "element 1 is 65536; UINT16"),
        (message(shape=(-2,), fp32_contents=[1, 2]), "shape [-2] has a negative size"),
        (message(shape=(2**62, 2**62), fp32_contents=[1, 2]), f"has {2**124} elements, the data has 2"),
        (with_raw(message(), b"a", b"b"), "There are 1 tensors and 2 raw contents; send one for each tensor, or none."),
        (with_raw(message(fp32_contents=[1, 2]), b"abcd"), 'Tensor "x" has contents, and there are raw contents'),
        (with_raw(message(), b"abc"), 'Tensor "x": 3 bytes of binary data; an element of FP32 has 4.'),
        (with_raw(message("BYTES"), b"\1"), 'Tensor "x": its binary data ends within element 0'),
        (
            pb.ModelInferRequest(parameters={"n": pb.InferParameter()}, inputs=message(fp32_contents=[1, 2]).inputs),
            'The parameter "n" has no value.',
        ),
        (
            pb.ModelInferRequest(inputs=[*message(fp32_contents=[1, 2]).inputs] * 2),
            'Several inputs are called "x"',
        ),
    ],
    ids=[
        "no-inputs", "datatype", "fp16", "bf16", "no-data", "wrong-field", "int8", "uint16", "negative", "overflow",
        "raw-count", "both", "half-an-element", "cut-bytes", "parameter", "twice",
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_message_is_said(said: pb.ModelInferRequest, error: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(error)):
        grpc.request_from_proto(said)


def test_an_answer_is_raw_where_the_request_was() -> None:
    response = TensorResponse("m", "1", (Tensor.from_numpy("y", ROW),), "7", {"n": 1})
    described = {
        "model_name": "m",
        "model_version": "1",
        "id": "7",
        "parameters": {"n": pb.InferParameter(int64_param=1)},
    }
    output = {"name": "y", "datatype": "FP32", "shape": [2]}
    assert grpc.response_to_proto(response, raw=True) == pb.ModelInferResponse(
        **described, outputs=[output], raw_output_contents=[ROW.tobytes()]
    )
    assert grpc.response_to_proto(response) == pb.ModelInferResponse(
        **described, outputs=[{**output, "contents": {"fp32_contents": [1, 2]}}]
    )


def test_an_answer_with_fp16_is_raw_because_nothing_else_holds_it() -> None:
    half = ROW.astype(np.float16)
    response = TensorResponse("m", None, (Tensor.from_numpy("y", ROW), Tensor.from_numpy("z", half)))
    assert list(grpc.response_to_proto(response).raw_output_contents) == [ROW.tobytes(), half.tobytes()]


def test_bf16_is_two_bytes_in_raw_contents() -> None:
    (tensor,) = grpc.request_from_proto(with_raw(message("BF16"), b"\x80\x3f\xc0\xbf")).inputs
    assert plain(tensor) == plain(Tensor("x", "BF16", (2,), np.array([1, -1.5], np.float32)))
    response = TensorResponse("m", None, (Tensor("y", "BF16", (2,), np.array([1, -1.5], np.float32)),))
    assert list(grpc.response_to_proto(response).raw_output_contents) == [b"\x80\x3f\xc0\xbf"]


def test_an_answer_that_is_none_is_the_upstreams_fault() -> None:
    output = pb.ModelInferResponse.InferOutputTensor(name="y", datatype="FP32", shape=[2])
    with pytest.raises(UpstreamBroken, match=r'The response is not of the v2 protocol. Tensor "y"'):
        grpc.response_from_proto(pb.ModelInferResponse(outputs=[output]))


def test_a_models_metadata_is_told() -> None:
    metadata = ModelMetadata(
        "m", ("1", "2"), "pytorch", (TensorMetadata("x", "FP32", (-1, 784)),), (TensorMetadata("y", "INT64", (-1,)),)
    )
    assert grpc.metadata_to_proto(metadata) == pb.ModelMetadataResponse(
        name="m",
        versions=["1", "2"],
        platform="pytorch",
        inputs=[{"name": "x", "datatype": "FP32", "shape": [-1, 784]}],
        outputs=[{"name": "y", "datatype": "INT64", "shape": [-1]}],
    )
