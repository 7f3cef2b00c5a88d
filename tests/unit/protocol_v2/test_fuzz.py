"""Whatever comes in, it is a request, or refused as one that is not."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import orjson
from google.protobuf.message import DecodeError

from data_plane.errors import InvalidRequest, UpstreamBroken
from data_plane.protocol.v2 import grpc, rest
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.datatypes import DATATYPES
from data_plane.protocol.v2.requests import OutputRequest, TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor, dtype
from tests.support.fuzz import damaged
from tests.support.v2_rest import decode_response, encode_request

ROUNDS = 4000


def tensor(datatype: str) -> Tensor:
    data = np.array([b"a", b""], dtype=object) if datatype == "BYTES" else np.ones(2, dtype(datatype, datatype))
    return Tensor(datatype, datatype, (2,), data, {"unit": "m"})


TENSORS = tuple(map(tensor, DATATYPES))
REQUEST = TensorRequest(TENSORS, "42", {"binary_data_output": False}, (OutputRequest("y", {"binary_data": True}),))
NESTED = orjson.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2], "data": [[1, 2], [3, 4]]}]})


def test_json_requests() -> None:
    outcomes = [parses(rest.decode_request, body) for body in damaged([encode_request(REQUEST)[0], NESTED], ROUNDS)]
    assert set(outcomes) == {True, False}


def test_requests_in_the_binary_form() -> None:
    good, length = encode_request(REQUEST, binary=True)
    chance = random.Random(1)
    lengths = (length, length, length, 0, -1, chance.randrange(len(good)), 2**70)
    outcomes = [parses(rest.decode_request, body, chance.choice(lengths)) for body in damaged([good], ROUNDS)]
    assert set(outcomes) == {True, False}


def test_protobuf_requests() -> None:
    good = [grpc.request_to_proto(REQUEST, "m", raw=True), grpc.request_to_proto(REQUEST, "m", raw=False)]
    with_contents = tuple(one for one in TENSORS if one.datatype not in ("FP16", "BF16"))
    typed = grpc.request_to_proto(TensorRequest(with_contents), "m", raw=False)
    bodies = [message.SerializeToString() for message in (*good, typed)]
    outcomes = []
    for body in damaged(bodies, ROUNDS):
        grpc.addressee(body)
        try:
            message = pb.ModelInferRequest.FromString(body)
        except DecodeError:
            continue
        outcomes.append(parses(grpc.request_from_proto, message))
    assert set(outcomes) == {True, False}


def test_answers() -> None:
    response = TensorResponse("m", "1", TENSORS, "42")
    good, _ = rest.encode_response(response, TensorRequest(TENSORS))
    outcomes = [parses(decode_response, body) for body in damaged([good], ROUNDS)]
    assert set(outcomes) == {True, False}


def parses(parse: Callable[..., object], *arguments: object) -> bool:
    try:
        parse(*arguments)
    except (InvalidRequest, UpstreamBroken):
        return False
    return True
