"""Whatever is sent arrives: every datatype, shape, parameter and id, in each form on the wire."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from data_plane.protocol.v2 import grpc, rest
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from tests.support.tensors import plain_request, plain_response, requests, responses, some_tensors
from tests.support.v2_rest import decode_response, encode_request


@given(requests(json=True))
def test_a_request_survives_json(request: TensorRequest) -> None:
    body, json_length = encode_request(request)
    assert json_length is None
    assert plain_request(rest.decode_request(body)) == plain_request(request)


@given(requests())
def test_a_request_survives_the_binary_form(request: TensorRequest) -> None:
    body, json_length = encode_request(request, binary=True)
    assert plain_request(rest.decode_request(body, json_length)) == plain_request(request)


@given(requests(), st.booleans())
def test_a_request_survives_protobuf(request: TensorRequest, raw: bool) -> None:
    message = grpc.request_to_proto(request, "m", "1", raw=raw)
    arrived = pb.ModelInferRequest.FromString(message.SerializeToString())
    assert (arrived.model_name, arrived.model_version) == ("m", "1")
    assert plain_request(grpc.request_from_proto(arrived)) == plain_request(request)


@given(responses(json=True), some_tensors(json=True))
def test_a_response_survives_json(response: TensorResponse, inputs: tuple[Tensor, ...]) -> None:
    body, json_length = rest.encode_response(response, TensorRequest(inputs))
    assert json_length is None
    assert plain_response(decode_response(body)) == plain_response(response)


@given(responses(), some_tensors(json=False))
def test_a_response_survives_the_binary_form(response: TensorResponse, inputs: tuple[Tensor, ...]) -> None:
    body, json_length = rest.encode_response(response, TensorRequest(inputs, parameters={"binary_data_output": True}))
    assert plain_response(decode_response(body, json_length)) == plain_response(response)


@given(responses(), st.booleans())
def test_a_response_survives_protobuf(response: TensorResponse, raw: bool) -> None:
    message = grpc.response_to_proto(response, raw=raw)
    arrived = pb.ModelInferResponse.FromString(message.SerializeToString())
    assert plain_response(grpc.response_from_proto(arrived)) == plain_response(response)
