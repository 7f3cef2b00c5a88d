"""Whatever is sent arrives: every datatype, shape, parameter and id, in each form on the wire."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from data_plane.protocol.v2 import grpc, rest
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest
from tests.support.tensors import plain_request, requests
from tests.support.v2_rest import encode_request


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
