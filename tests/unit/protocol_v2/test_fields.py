"""What a serialized request over gRPC holds is counted before it is parsed."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_MESSAGE_ELEMENTS, MAX_MESSAGE_FIELDS, MAX_MESSAGE_NUMBERS
from data_plane.protocol.v2 import fields
from data_plane.protocol.v2 import open_inference_pb2 as pb
from tests.support.fuzz import damaged


def request(**contents: object) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name="m", id="1")
    tensor = message.inputs.add(name="x", datatype="FP32", shape=[2, 3])
    tensor.parameters["a"].string_param = "b"
    for field, values in contents.items():
        getattr(tensor.contents, field).extend(values)
    return message


def inputs(number: int) -> pb.ModelInferRequest:
    return pb.ModelInferRequest(inputs=[pb.ModelInferRequest.InferInputTensor()] * number)


def with_parameters(number: int) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest()
    for index in range(number):
        message.parameters[str(index)].bool_param = True
    return message


# Written when its test runs: some take long.
Write = Callable[[], pb.ModelInferRequest]
TOO_MUCH: dict[str, tuple[Write, str]] = {
    "inputs": (lambda: inputs(MAX_MESSAGE_FIELDS + 1), f"more than {MAX_MESSAGE_FIELDS} fields beside the contents"),
    "raw-contents": (
        lambda: pb.ModelInferRequest(raw_input_contents=[b""] * (MAX_MESSAGE_FIELDS + 1)), "fields beside the contents",
    ),
    "bytes": (
        lambda: request(bytes_contents=[b""] * (MAX_MESSAGE_ELEMENTS + 1)),
        f"more than {MAX_MESSAGE_ELEMENTS} elements",
    ),
    "integers": (
        lambda: request(int64_contents=[1] * (MAX_MESSAGE_NUMBERS + 1)),
        f"more than {MAX_MESSAGE_NUMBERS} whole numbers",
    ),
    "booleans": (
        lambda: request(bool_contents=[True] * (MAX_MESSAGE_NUMBERS + 1)), "whole numbers in typed contents",
    ),
    "sizes": (
        lambda: pb.ModelInferRequest(
            inputs=[pb.ModelInferRequest.InferInputTensor(shape=[1] * (MAX_MESSAGE_NUMBERS + 1))]
        ),
        "whole numbers",
    ),
    "parameters": (lambda: with_parameters(MAX_MESSAGE_FIELDS + 1), "fields beside the contents"),
}  # fmt: skip
SERVED: dict[str, Write] = {
    "floats": lambda: request(fp32_contents=[0.5] * 1_600_000),
    "negative": lambda: request(int64_contents=[-1] * 100_000),
    "texts": lambda: request(bytes_contents=[b"a" * 300] * 1000),
    "raw": lambda: pb.ModelInferRequest(model_name="m", raw_input_contents=[b"\xff" * 6_000_000]),
    "inputs": lambda: inputs(1000),
}


@pytest.mark.parametrize(("write", "words"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_message_that_holds_more_than_is_served_is_refused(write: Write, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        fields.check(write().SerializeToString())


@pytest.mark.parametrize("write", SERVED.values(), ids=SERVED)
def test_what_models_are_asked_is_served(write: Write) -> None:
    fields.check(write().SerializeToString())


def test_what_is_no_message_is_for_the_parser_to_refuse() -> None:
    good = [request(fp32_contents=[0.5], bytes_contents=[b"a", b"b"], int_contents=[300]).SerializeToString()]
    chance = random.Random(1)

    for body in (*damaged(good, 2000), *(chance.randbytes(chance.randrange(40)) for _ in range(2000))):
        fields.check(body)
