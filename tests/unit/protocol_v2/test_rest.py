"""The JSON form and the binary tensor extension, one behaviour at a time."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import orjson
import pytest

from data_plane.errors import InvalidRequest
from data_plane.protocol.v2 import rest
from data_plane.protocol.v2.requests import OutputRequest, TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from tests.support.tensors import plain, plain_request
from tests.support.v2_rest import encode_request

INPUT = {"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]}
SQUARE = np.array([[1, 2], [3, 4]], dtype=np.float32)


def body(*inputs: dict[str, Any], **fields: Any) -> bytes:
    return orjson.dumps({"inputs": list(inputs), **fields})


def answer(*outputs: Tensor) -> TensorResponse:
    return TensorResponse("m", "1", outputs, "7")


def asking(**fields: Any) -> TensorRequest:
    return TensorRequest((Tensor.from_numpy("x", SQUARE),), **fields)


def test_a_request_comes_out_with_all_that_it_says() -> None:
    request = rest.decode_request(
        body(
            {**INPUT, "parameters": {"unit": "m", "n": 1}},
            id="42",
            parameters={"priority": 0.5, "binary_data_output": False},
            outputs=[{"name": "y", "parameters": {"binary_data": True}}, {"name": "z"}],
            model_name="KServe's client says it in the body too",
        )
    )
    assert plain_request(request) == plain_request(
        TensorRequest(
            inputs=(Tensor("x", "FP32", (2, 2), SQUARE, {"unit": "m", "n": 1}),),
            id="42",
            parameters={"priority": 0.5, "binary_data_output": False},
            outputs=(OutputRequest("y", {"binary_data": True}), OutputRequest("z")),
        )
    )


@pytest.mark.parametrize(
    ("shape", "data", "actual"),
    [
        ([2, 2], [1, 2, 3, 4], (2, 2)),
        ([2, 2], [[1, 2], [3, 4]], (2, 2)),
        ([1, 2, 2], [[1, 2], [3, 4]], (1, 2, 2)),
        ([2, 2], [[[1, 2], [3, 4]]], (2, 2)),
        ([4], [[1, 2, 3, 4]], (4,)),
        ([-1], [1, 2, 3, 4], (4,)),
        ([-1, 2], [[1, 2], [3, 4]], (2, 2)),
    ],
    ids=["flat", "nested", "without-batch", "batch-too-many", "row", "all", "the-rest"],
)
def test_data_is_flat_or_nested(shape: list[int], data: list[Any], actual: tuple[int, ...]) -> None:
    (tensor,) = rest.decode_request(body({**INPUT, "shape": shape, "data": data})).inputs
    assert plain(tensor) == plain(Tensor("x", "FP32", actual, SQUARE.reshape(actual)))


def test_binary_data_is_looked_at_where_it_lies() -> None:
    sent, json_length = encode_request(asking(), binary=True)
    (tensor,) = rest.decode_request(sent, json_length).inputs
    assert np.shares_memory(tensor.data, np.frombuffer(sent, np.uint8))


def test_binary_and_json_inputs_go_together() -> None:
    head = body(
        {"name": "a", "shape": [2], "datatype": "UINT8", "parameters": {"binary_data_size": 2, "unit": "m"}},
        {"name": "b", "shape": [1], "datatype": "BOOL", "data": [True]},
        {"name": "c", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": 11}},
    )
    tail = bytes([1, 2]) + struct.pack("<I3sI", 3, b"abc", 0)
    request = rest.decode_request(head + tail, len(head))
    assert [plain(tensor) for tensor in request.inputs] == [
        plain(Tensor("a", "UINT8", (2,), np.array([1, 2], dtype=np.uint8), {"unit": "m"})),
        plain(Tensor("b", "BOOL", (1,), np.array([True]))),
        plain(Tensor("c", "BYTES", (2,), np.array([b"abc", b""], dtype=object))),
    ]


def test_an_answer_with_views_and_text_is_written_row_by_row() -> None:
    turned, text = Tensor.from_numpy("y", SQUARE.T), Tensor.from_numpy("z", np.array([["a", "é"]]))
    document, _ = rest.encode_response(answer(turned, text), asking())
    assert [output["data"] for output in orjson.loads(document)["outputs"]] == [[1.0, 3.0, 2.0, 4.0], ["a", "é"]]


def test_outputs_come_as_they_were_asked_for() -> None:
    request = asking(outputs=(OutputRequest("z", {"binary_data": True}), OutputRequest("y")))
    outputs = [Tensor.from_numpy(name, np.array([number], dtype=np.uint8)) for number, name in enumerate("xyz")]
    sent, json_length = rest.encode_response(answer(*outputs), request)
    assert orjson.loads(sent[:json_length])["outputs"] == [
        {"name": "z", "datatype": "UINT8", "shape": [1], "parameters": {"binary_data_size": 1}},
        {"name": "y", "datatype": "UINT8", "shape": [1], "data": [1]},
    ]
    assert sent[json_length:] == b"\x02"


def test_binary_data_output_holds_for_outputs_that_do_not_say_otherwise() -> None:
    request = asking(
        parameters={"binary_data_output": True},
        outputs=(OutputRequest("y", {"binary_data": False}), OutputRequest("x")),
    )
    outputs = [Tensor.from_numpy(name, np.array([number], dtype=np.uint8)) for number, name in enumerate("xy")]
    sent, json_length = rest.encode_response(answer(*outputs), request)
    assert sent[json_length:] == b"\x00"


def test_json_has_null_for_what_is_no_number() -> None:
    document, _ = rest.encode_response(answer(Tensor.from_numpy("y", np.array([1, np.nan, np.inf]))), asking())
    assert orjson.loads(document)["outputs"][0]["data"] == [1.0, None, None]


def test_bf16_is_numbers_in_json_and_two_bytes_in_binary_form() -> None:
    halves = np.array([0x3F80, 0xBFC0], np.uint16)
    numbers = Tensor("x", "BF16", (2,), np.array([1, -1.5], np.float32))
    described = {"name": "x", "shape": [2], "datatype": "BF16"}
    in_json = rest.decode_request(body({**described, "data": [1.001, -1.5]})).inputs[0]
    head = body({**described, "parameters": {"binary_data_size": 4}})
    in_binary = rest.decode_request(head + halves.tobytes(), len(head)).inputs[0]
    assert [plain(in_json), plain(in_binary)] == [plain(numbers)] * 2

    document, _ = rest.encode_response(answer(numbers), asking())
    sent, json_length = rest.encode_response(answer(numbers), asking(parameters={"binary_data_output": True}))
    assert orjson.loads(document)["outputs"] == [{**described, "data": [1.0, -1.5]}]
    assert sent[json_length:] == halves.tobytes()


def test_an_output_that_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidRequest, match='Model m has no output "p"; its outputs are y'):
        rest.encode_response(answer(Tensor.from_numpy("y", SQUARE)), asking(outputs=(OutputRequest("p"),)))


def test_bytes_that_json_cannot_carry_are_to_be_asked_for_in_binary_form() -> None:
    image = Tensor.from_numpy("y", np.array([b"\xff\xd8"], dtype=object))
    with pytest.raises(InvalidRequest, match=r'"y" holds bytes that are not UTF-8.*"binary_data": true'):
        rest.encode_response(answer(image), asking())


def test_an_array_that_no_datatype_holds_is_the_models_fault() -> None:
    with pytest.raises(TypeError, match='Tensor "y": no datatype of the protocol holds complex128'):
        Tensor.from_numpy("y", np.array([1j]))
    with pytest.raises(TypeError, match="BYTES holds text and bytes, not dict"):
        Tensor.from_numpy("y", np.array([{}], dtype=object))
