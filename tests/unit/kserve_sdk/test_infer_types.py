"""Requests and responses of the v2 protocol: the same tests on KServe's classes and on ours."""

from __future__ import annotations

import importlib
import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from transformer_sdk.kserve.errors import InferenceError, InvalidInput
from transformer_sdk.kserve.protocol import infer_type as ours

SDKS = ("kserve", "transformer_sdk.kserve")


@pytest.fixture(params=SDKS)
def sdk(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"{request.param}.protocol.infer_type")


def document_of(encoded: tuple[Any, int | None]) -> Any:
    """The JSON of `to_rest`'s result, without what is empty."""
    body, length = encoded
    document = json.loads(body[:length]) if length else body
    return {name: value for name, value in document.items() if value is not None}


def test_data_of_a_list_becomes_an_array_of_the_datatype(sdk: ModuleType) -> None:
    one = sdk.InferInput("x", [2, 2], "FP32", [1, 2, 3, 4.5])

    array = one.as_numpy()
    assert (array.dtype, array.tolist()) == (np.float32, [[1.0, 2.0], [3.0, 4.5]])


@pytest.mark.parametrize("binary", [False, True], ids=["JSON", "raw"])
def test_the_array_of_a_body_can_be_written_to_and_the_body_stays(sdk: ModuleType, binary: bool) -> None:
    sent = sdk.InferInput("x", [2], "FP32", [2.0, 4.0])
    sent.set_data_from_numpy(np.array([2, 4], np.float32), binary_data=binary)
    body, length = sdk.InferRequest("m", [sent]).to_rest()
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    one = sdk.InferRequest.from_bytes(content, length or len(content), "m").inputs[0]

    array = one.as_numpy()
    array /= 2
    assert (array.tolist(), one.as_numpy().tolist()) == ([1, 2], [2, 4])


def test_nested_data_becomes_an_array_and_stays_as_it_was_sent(sdk: ModuleType) -> None:
    one = sdk.InferInput("x", [2, 2], "INT64", [[1, 2], [3, 4]])

    assert (one.as_numpy().tolist(), one.data) == ([[1, 2], [3, 4]], [[1, 2], [3, 4]])


def test_text_is_text_in_an_array_of_objects(sdk: ModuleType) -> None:
    one = sdk.InferInput("x", [2], "BYTES", ["a", "ä"])

    assert one.as_numpy().tolist() == ["a", "ä"]


@pytest.mark.parametrize(
    ("datatype", "array"),
    [
        ("FP32", np.array([[1.5, -2]], np.float32)),
        ("INT8", np.array([1, 2], np.int8)),
        ("BOOL", np.array([True, False])),
        ("BYTES", np.array([b"\xff", b""], object)),
        ("FP16", np.array([0.5], np.float16)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arrays_as_raw_bytes_come_back_as_they_were(sdk: ModuleType, datatype: str, array: Any) -> None:
    one = sdk.InferOutput("y", list(array.shape), datatype)
    one.set_data_from_numpy(array, binary_data=True)

    assert one.as_numpy().tolist() == array.tolist()
    assert one.parameters["binary_data_size"] > 0


def test_arrays_as_json_are_flat_lists(sdk: ModuleType) -> None:
    one = sdk.InferOutput("y", [1, 2], "INT64")
    one.set_data_from_numpy(np.array([[1, 2]]), binary_data=False)

    assert one.data == [1, 2]


def test_a_request_goes_out_as_the_protocol_has_it(sdk: ModuleType) -> None:
    request = sdk.InferRequest(
        "m", [sdk.InferInput("x", [2], "INT64", [1, 2])], "7", parameters={"p": 1},
        request_outputs=[sdk.RequestedOutput("y", {"binary_data": False})],
    )  # fmt: skip

    assert document_of(request.to_rest()) == {
        "id": "7",
        "model_name": "m",
        "inputs": [{"name": "x", "shape": [2], "datatype": "INT64", "data": [1, 2]}],
        "outputs": [{"name": "y", "parameters": {"binary_data": False}}],
        "parameters": {"p": 1},
    }


def test_a_request_with_raw_inputs_survives_the_way(sdk: ModuleType) -> None:
    one = sdk.InferInput("x", [1, 2], "FP32")
    one.set_data_from_numpy(np.array([[1, 2]], np.float32))
    body, length = sdk.InferRequest("m", [one], "7").to_rest()

    back = sdk.InferRequest.from_bytes(body, length, "m")
    assert back.inputs[0].as_numpy().tolist() == [[1, 2]]
    assert back.inputs[0].data == [1, 2]


def test_a_response_goes_out_in_the_form_that_it_says(sdk: ModuleType) -> None:
    def made(**more: Any) -> Any:
        return sdk.InferResponse("7", "m", [sdk.InferOutput("y", [2], "INT64", [1, 2])], **more)

    assert document_of(made().to_rest())["outputs"] == [
        {"name": "y", "shape": [2], "datatype": "INT64", "data": [1, 2]}
    ]
    body, length = made(use_binary_outputs=True).to_rest()
    assert body[length:] == np.array([1, 2]).tobytes()
    back = sdk.InferResponse.from_bytes(body, length)
    assert (back.id, back.model_name, back.outputs[0].data) == ("7", "m", [1, 2])


def test_the_client_gets_the_outputs_that_it_wants(sdk: ModuleType) -> None:
    outputs = [sdk.InferOutput(name, [1], "INT64", [number]) for number, name in enumerate("ab")]
    response = sdk.InferResponse("7", "m", outputs, requested_outputs=[sdk.RequestedOutput("b")])

    assert [one["name"] for one in document_of(response.to_rest())["outputs"]] == ["b"]


@pytest.mark.parametrize("raw", [False, True], ids=["contents", "raw"])
def test_requests_and_responses_survive_grpc(sdk: ModuleType, raw: bool) -> None:
    one, other = sdk.InferInput("x", [2], "INT64", [1, 2]), sdk.InferOutput("y", [1], "BYTES", ["a"])
    if raw:
        one.set_data_from_numpy(np.array([1, 2]))
        other.set_data_from_numpy(np.array([b"a"], object))

    request = sdk.InferRequest.from_grpc(sdk.InferRequest("m", [one], "7").to_grpc())
    response = sdk.InferResponse.from_grpc(sdk.InferResponse("7", "m", [other]).to_grpc())

    assert (request.id, request.model_name, request.from_grpc) == ("7", "m", True)
    assert request.inputs[0].as_numpy().tolist() == [1, 2]
    assert response.outputs[0].as_numpy().tolist() == [b"a"]
    assert request.use_binary_outputs is raw


def test_inputs_are_a_data_frame_where_pandas_is(sdk: ModuleType) -> None:
    request = sdk.InferRequest(
        "m", [sdk.InferInput("x", [2], "INT64", [1, 2]), sdk.InferInput("t", [2], "BYTES", ["a", "b"])]
    )

    assert request.as_dataframe().to_dict("list") == {"x": [1, 2], "t": ["a", "b"]}


def test_equal_things_are_equal(sdk: ModuleType) -> None:
    def made(value: int) -> Any:
        return sdk.InferRequest("m", [sdk.InferInput("x", [1], "INT64", [value])], "7")

    assert made(1) == made(1)
    assert made(1) != made(2)


# --- ours alone: what is wrong is said


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (ours.InferInput("x", [3], "INT64", [1, 2]), "shape [3] has 3 elements, the data has 2"),
        (ours.InferInput("x", [1], "INT64", ["a"]), "element 0 is 'a'"),
        (ours.InferInput("x", [1], "INT7", [1]), 'there is no datatype "INT7"'),
        (ours.InferInput("x", [3], "BYTES", ["a"]), "shape [3] has 3 elements, the data has 1"),
    ],
    ids=["shape", "element", "datatype", "shape of text"],
)
def test_data_that_does_not_fit_is_refused_when_it_becomes_an_array(tensor: ours.InferInput, words: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        tensor.as_numpy()
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not valid JSON"),
        (b'{"inputs": [{"name": "x"}]}', "missing required field"),
        (b'{"inputs": [{"name": "x", "datatype": "INT8", "shape": [1]}]}', 'has no "data"'),
        (
            b'{"inputs": [{"name": "x", "datatype": "INT8", "shape": [1], "parameters": {"binary_data_size": 9}}]}',
            "binary_data_size is 9",
        ),
    ],
)
def test_a_body_that_is_not_of_the_protocol_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        ours.InferRequest.from_bytes(body, None, "m")
    assert words in str(raised.value)


def test_an_array_that_does_not_fit_is_refused() -> None:
    one = ours.InferOutput("y", [2], "FP32")
    for array in (np.zeros(2, np.float64), np.zeros(3, np.float32), [1.0, 2.0]):
        with pytest.raises(InferenceError):
            one.set_data_from_numpy(array)  # type: ignore[arg-type]
