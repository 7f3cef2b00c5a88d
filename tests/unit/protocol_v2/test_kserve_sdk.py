"""KServe's own client library: what it writes we read, and what we write it reads."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from kserve.protocol import infer_type as kserve
from kserve.protocol.grpc import grpc_predict_v2_pb2 as kserve_pb

from data_plane.protocol.v2 import grpc, rest
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.datatypes import DATATYPES
from data_plane.protocol.v2.requests import OutputRequest, TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor, dtype
from tests.support.tensors import plain, plain_request
from tests.support.v2_rest import encode_request

# KServe's knows no BF16.
KNOWN = tuple(datatype for datatype in DATATYPES if datatype != "BF16")


def array(datatype: str) -> np.ndarray:  # type: ignore[type-arg]
    if datatype == "BYTES":
        return np.array([["a", "é"]], dtype=object)
    return np.array([[0, 1]]).astype(dtype("x", datatype))


def theirs(datatype: str, *, binary: bool) -> kserve.InferRequest:
    """As a transformer makes it for its predictor."""
    inputs = [kserve.InferInput("x", [1, 2], datatype, parameters={"unit": "m"})]
    inputs[0].set_data_from_numpy(array(datatype), binary_data=binary)
    return kserve.InferRequest(
        "m", inputs, "42", parameters={"n": 1}, request_outputs=[kserve.RequestedOutput("y", {"binary_data": True})]
    )


def ours(datatype: str) -> TensorRequest:
    encoded = Tensor.from_numpy("x", array(datatype))
    tensor = Tensor("x", datatype, (1, 2), encoded.data, {"unit": "m"})
    return TensorRequest((tensor,), "42", {"n": 1}, (OutputRequest("y", {"binary_data": True}),))


# KServe refuses FP16 in JSON.
@pytest.mark.parametrize("datatype", [one for one in KNOWN if one != "FP16"])
def test_its_json_is_read(datatype: str) -> None:
    document, json_length = theirs(datatype, binary=False).to_rest()
    assert json_length is None
    assert plain_request(rest.decode_request(orjson.dumps(document))) == plain_request(ours(datatype))


@pytest.mark.parametrize("datatype", KNOWN)
def test_its_binary_form_is_read(datatype: str) -> None:
    body, json_length = theirs(datatype, binary=True).to_rest()
    assert plain_request(rest.decode_request(body, json_length)) == plain_request(ours(datatype))


@pytest.mark.parametrize("binary", [True, False], ids=["raw", "contents"])
@pytest.mark.parametrize("datatype", KNOWN)
def test_its_protobuf_is_read(datatype: str, binary: bool) -> None:
    sent = theirs(datatype, binary=binary or datatype == "FP16")
    sent.inputs[0].parameters.pop("binary_data_size", None)
    message = pb.ModelInferRequest.FromString(sent.to_grpc().SerializeToString())
    assert message.model_name == "m"
    assert plain_request(grpc.request_from_proto(message)) == plain_request(ours(datatype))


@pytest.mark.parametrize("datatype", [one for one in KNOWN if one != "FP16"])
def test_it_reads_our_json(datatype: str) -> None:
    body, _ = rest.encode_response(answer(datatype), TensorRequest(answer(datatype).outputs))
    assert_same(kserve.InferResponse.from_rest(orjson.loads(body)), datatype)


@pytest.mark.parametrize("datatype", [one for one in KNOWN if one != "FP16"])
def test_it_reads_our_binary_form(datatype: str) -> None:
    request = TensorRequest(answer(datatype).outputs, parameters={"binary_data_output": True})
    body, json_length = rest.encode_response(answer(datatype), request)
    assert_same(kserve.InferResponse.from_bytes(body, json_length), datatype)


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "contents"])
@pytest.mark.parametrize("datatype", KNOWN)
def test_it_reads_our_protobuf(datatype: str, raw: bool) -> None:
    message = grpc.response_to_proto(answer(datatype), raw=raw)
    arrived = kserve_pb.ModelInferResponse.FromString(message.SerializeToString())
    assert_same(kserve.InferResponse.from_grpc(arrived), datatype)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_it_reads_our_requests(binary: bool) -> None:
    body, json_length = encode_request(ours("INT64"), binary=binary)
    arrived = kserve.InferRequest.from_bytes(body, json_length or len(body), "m")
    assert (arrived.id, arrived.parameters, arrived.request_outputs) == (
        "42",
        {"n": 1},
        [kserve.RequestedOutput("y", {"binary_data": True})],
    )
    np.testing.assert_array_equal(arrived.inputs[0].as_numpy(), array("INT64"))


def answer(datatype: str) -> TensorResponse:
    return TensorResponse("m", "1", (Tensor.from_numpy("y", array(datatype)),), "42")


def assert_same(arrived: kserve.InferResponse, datatype: str) -> None:
    (output,) = arrived.outputs
    read = Tensor.from_numpy("y", output.as_numpy())
    assert (arrived.model_name, arrived.id, output.name, output.datatype) == ("m", "42", "y", datatype)
    assert plain(read) == plain(answer(datatype).outputs[0])
