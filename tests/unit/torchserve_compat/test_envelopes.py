"""What a handler gets of each form of request, and what its results become."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest

from data_plane.protocol.v2.requests import OutputRequest
from data_plane.protocol.v2.tensors import Tensor
from tests.unit.torchserve_compat.running import (
    documents,
    instances,
    json_request,
    outputs,
    run,
    tensor_request,
    v2_request,
    whole,
)
from torchserve_compat.frames import Form, HandlerFailure, HandlerRequest, RequestPart
from torchserve_compat.worker.envelopes import envelope_named

V2 = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [2, 1], "data": [1, 2]}]}
DEEP = b"[" * 100_000 + b"]" * 100_000
INPUT = {"name": "x", "shape": [2, 1], "datatype": "INT64", "data": [[1], [2]]}


def seen(envelope: str, form: Form, request: HandlerRequest) -> Any:
    """What the handler is called with."""
    calls: list[Any] = []

    def record(data: list[Any], _: Any) -> list[Any]:
        calls.append(data)
        return [0] * len(data)

    run(envelope, record, form, [request])
    return calls[0]


@pytest.mark.parametrize(
    ("envelope", "form", "request_", "data"),
    [
        ("kserve", "v1", json_request({"inputs": [1]}), [1]),
        ("kserve", "raw", whole(b"\xff", "image/jpeg"), [{"body": bytearray(b"\xff")}]),
        ("kserve", "raw", json_request({"a": 1}), [{"body": {"a": 1}}]),
        ("kserve", "raw", json_request({"inputs": [1], "k": 1}), [{"body": {"inputs": [1], "k": 1}}]),
        ("kserve", "v2", tensor_request(x=[[1], [2]]), [[1], [2]]),
        ("kserve", "v2", tensor_request(data=[b"a", b"b"]), [{"data": "a"}, {"data": "b"}]),
        ("kserve", "v2", tensor_request(x=3), [3]),
        ("json", "v1", instances({"b64": "YQ=="}, {"data": {"b64": "YQ=="}, "n": 1}), [b"a", {"data": b"a", "n": 1}]),
        ("json", "v1", instances({"b64": "YWFh\nYWFh\r\nYQ==\n"}, {"x": {"b64": ""}}), [b"aaaaaaa", {"x": b""}]),
        ("none", "v1", instances(1), [{"body": {"instances": [1]}}]),
        ("none", "v2", tensor_request(x=[[1], [2]]), [{"body": {"id": "1", "inputs": [{**INPUT, "data": [1, 2]}]}}]),
        ("none", "raw", whole(b"text", "text/plain"), [{"body": "text"}]),
        ("none", "raw", whole(b"{", "application/json"), [{"body": bytearray(b"{")}]),
        ("none", "raw", whole(DEEP, "application/json"), [{"body": bytearray(DEEP)}]),
        ("none", "v1", whole(DEEP, "application/json"), [{"body": bytearray(DEEP)}]),
        ("kserve", "raw", whole(DEEP, "application/json"), [{"body": bytearray(DEEP)}]),
        ("body", "v2", tensor_request(x=[[1], [2]]), [{"id": "1", "inputs": [{**INPUT, "data": [1, 2]}]}]),
        ("kservev2", "v2", tensor_request(x=[[1], [2]]), [INPUT]),
        ("kservev2", "raw", json_request(V2), [INPUT]),
        ("kservev2", "raw", json_request({"a": 1}), [{"body": {"a": 1}}]),
        ("kservev2", "v2", tensor_request(t=[b"a", b"b"]),
         [{"name": "t", "shape": [2], "datatype": "BYTES", "data": "a"}]),
        ("kservev2", "v1", instances("a", "b"),
         [{"name": "instances", "shape": [2], "datatype": "BYTES", "data": ["a", "b"]}]),
        ("kservev2", "v1", instances([1, 2]),
         [{"name": "instances", "shape": [1, 2], "datatype": "INT64", "data": [[1, 2]]}]),
    ],
)  # fmt: skip
def test_a_handler_gets_what_its_envelope_says(envelope: str, form: Form, request_: HandlerRequest, data: Any) -> None:
    assert seen(envelope, form, request_) == data


@pytest.mark.parametrize(
    ("envelope", "result", "tensors"),
    [
        ("kserve", [1, 2], {"predictions": ("INT64", [1, 2])}),
        ("kserve", ["a", "b"], {"predictions": ("BYTES", [b"a", b"b"])}),
        (
            "kserve",
            [{"p": 0.5, "tag": "x"}, {"p": 1.5, "tag": "y"}],
            {"p": ("FP64", [0.5, 1.5]), "tag": ("BYTES", [b"x", b"y"])},
        ),
        ("kserve", [{"a": 1}, {"b": 2}], {"predictions": ("BYTES", [b'{"a":1}', b'{"b":2}'])}),
        ("kserve", [[1], [1, 2]], {"predictions": ("BYTES", [b"[1]", b"[1,2]"])}),
        ("none", [[1, 2, 3]], {"predictions": ("INT64", [1, 2, 3])}),
        ("none", [np.array([1.5])], {"predictions": ("FP64", [1.5])}),
        ("kserve", [1, 2**64 - 1], {"predictions": ("UINT64", [1, 2**64 - 1])}),
        ("kserve", [1, 2**63], {"predictions": ("UINT64", [1, 2**63])}),
        ("kserve", [2**53 + 1, -1], {"predictions": ("INT64", [2**53 + 1, -1])}),
        ("kserve", [-1, 2**63 + 1], {"predictions": ("BYTES", [b"-1", b"9223372036854775809"])}),
        ("kserve", [1.5, 2**53 + 1], {"predictions": ("BYTES", [b"1.5", b"9007199254740993"])}),
        ("kserve", [1.5, 2**62], {"predictions": ("FP64", [1.5, 2.0**62])}),
        ("kserve", [2.0**60, 1.0], {"predictions": ("FP64", [2.0**60, 1.0])}),
        ("none", ["four"], {"predictions": ("BYTES", [b"four"])}),
        ("none", ["4"], {"predictions": ("BYTES", [b"4"])}),
        ("none", [b"null"], {"predictions": ("BYTES", [b"null"])}),
        ("none", [bytearray(b'"4"')], {"predictions": ("BYTES", [b'"4"'])}),
        ("none", ["[4]"], {"predictions": ("INT64", [4])}),
        ("none", [{"label": 3}], {"label": ("INT64", [3])}),
        (
            "none",
            [{"outputs": [{"name": "y", "datatype": "FP32", "shape": [2], "data": [1, 2]}]}],
            {"y": ("FP32", [1.0, 2.0])},
        ),
        (
            "none",
            [b'{"outputs": [{"name": "y", "datatype": "BOOL", "shape": [1], "data": [true]}]}'],
            {"y": ("BOOL", [True])},
        ),
    ],
)
def test_a_result_becomes_tensors(envelope: str, result: Any, tensors: Any) -> None:
    assert outputs(run(envelope, lambda *_: result, "v2", [tensor_request(x=[1, 2])])) == [tensors]


NAN = float("nan")


@pytest.mark.parametrize(
    ("results", "tensors"),
    [
        ([1.0, NAN], {"predictions": ("FP64", [1.0, NAN])}),
        ([float("inf"), 1], {"predictions": ("FP64", [float("inf"), 1.0])}),
        ([np.float32(0.5), np.array(NAN)], {"predictions": ("FP64", [0.5, NAN])}),
        ([1.0, None], {"predictions": ("FP64", [1.0, NAN])}),
        ([1, None], {"predictions": ("FP64", [1.0, NAN])}),
        ([[1.5, None], [NAN, 2]], {"predictions": ("FP64", [[1.5, NAN], [NAN, 2.0]])}),
        ([{"p": NAN, "t": None}, {"p": 1, "t": "x"}], {"p": ("FP64", [NAN, 1.0]), "t": ("BYTES", [b"null", b"x"])}),
        ([None, None], {"predictions": ("BYTES", [b"null", b"null"])}),
        ([True, None], {"predictions": ("BYTES", [b"true", b"null"])}),
        ([{1: NAN}, {1: 0.5}], {"1": ("FP64", [NAN, 0.5])}),
        ([[NAN], [1, 2]], {"predictions": ("BYTES", [b"[null]", b"[1,2]"])}),
    ],
)  # fmt: skip
def test_predictions_that_are_no_number_are_nan(results: list[Any], tensors: Any) -> None:
    found = outputs(run("kserve", lambda *_: results, "v2", [tensor_request(x=[1, 2])]))

    assert repr(found) == repr([tensors])  # NaN equals nothing


@pytest.mark.parametrize(
    ("envelope", "result", "tensors"),
    [
        ("kserve", ["a\0", "\0"], {"predictions": ("BYTES", [b"a\0", b"\0"])}),
        ("kserve", [["a\0", "b"], ["\0", ""]], {"predictions": ("BYTES", [[b"a\0", b"b"], [b"\0", b""]])}),
        ("kserve", [b"\xff\0", "b"], {"predictions": ("BYTES", [b"\xff\0", b"b"])}),
        ("kserve", ["a\0", 1.5], {"predictions": ("BYTES", [b"a\0", b"1.5"])}),
        ("kserve", [{"t": "a\0"}, {"t": "b"}], {"t": ("BYTES", [b"a\0", b"b"])}),
        ("none", [["a\0", "\0"]], {"predictions": ("BYTES", [b"a\0", b"\0"])}),
        ("kservev2", [["a\0", "\0"]], {"x": ("BYTES", [b"a\0", b"\0"])}),
        ("kservev2", ["a\0"], {"x": ("BYTES", [b"a\0"])}),
        ("kservev2", [b"\xff\0"], {"x": ("BYTES", [b"\xff\0"])}),
    ],
)
def test_text_stays_as_it_is(envelope: str, result: Any, tensors: Any) -> None:
    rows = tensor_request(x=[1] * len(result)) if envelope == "kserve" else tensor_request(x=[1])

    assert outputs(run(envelope, lambda *_: result, "v2", [rows])) == [tensors]


@pytest.mark.parametrize(
    ("result", "output"),
    [
        (np.array([[0.5], [1.5]], np.float32), ("FP64", [0.5, 1.5])),
        ([np.float32(0.5)], ("FP32", [0.5])),
        ([1.0, None], ("FP64", [1.0, NAN])),
        (7, ("INT64", [7])),
        ({"a": 1}, ("BYTES", [b'{"a":1}'])),
        ([[1], [1, 2]], ("BYTES", [b"[1]", b"[1,2]"])),
    ],
)
def test_a_handler_of_tensors_may_return_values_of_any_kind(result: Any, output: Any) -> None:
    found = outputs(run("kservev2", lambda *_: [result], "v2", [tensor_request(x=[1])]))

    assert repr(found) == repr([{"x": output}])


TOKENS = {
    "input_ids": [[101, 102]],
    "attention_mask": [[1, 1]],
}


def test_a_handler_of_tensors_may_give_fewer_outputs_than_it_has_inputs() -> None:
    found = outputs(run("kservev2", lambda *_: [[0.5, 1.5]], "v2", [tensor_request(**TOKENS)]))

    assert found == [{"input_ids": ("FP64", [0.5, 1.5])}]


@pytest.mark.parametrize(("requests", "given", "expected"), [(1, 0, 2), (1, 3, 2), (2, 1, 4), (2, 3, 4)])
def test_outputs_that_cannot_be_told_apart_are_the_handlers_fault(requests: int, given: int, expected: int) -> None:
    """Of requests that were merged fewer outputs could be anybody's."""
    result = run("kservev2", lambda *_: [0.5] * given, "v2", [tensor_request(**TOKENS)] * requests)

    assert result.failure == HandlerFailure(
        f"The handler must return one prediction per instance in a list: {expected} expected, got {given}", 500
    )


OUTPUT = {"name": "y", "datatype": "BOOL", "shape": [1], "data": [True]}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"outputs": [{"name": "y"}]}, "one lacks 'datatype'"),
        ({"outputs": [{**OUTPUT, "data": True}]}, '"data" is a bool; return a list'),
        ({"outputs": ["y"]}, "string indices must be integers, not 'str'"),
        ({"outputs": [OUTPUT], "parameters": {"a": None}},
         "Expected `bool | int | float | str`, got `null` - at `$[...]`"),
        ({"outputs": [{**OUTPUT, "parameters": {"a": [1]}}]},
         "Expected `bool | int | float | str`, got `array` - at `$[...]`"),
        ({"outputs": [OUTPUT], "parameters": "a"}, "Expected `object`, got `str`"),
    ],
)  # fmt: skip
def test_outputs_that_are_no_tensors_are_the_handlers_fault(answer: Any, message: str) -> None:
    result = run("none", lambda *_: [answer], "v2", [tensor_request(x=[1])])

    assert result.failure == HandlerFailure(f"The handler's outputs are not tensors: {message}", 500)


@pytest.mark.parametrize(
    "data",
    [
        [0.5, NAN], (0.5, NAN), [[0.5], [NAN]], np.array([0.5, NAN]), np.array([[0.5], [NAN]]),
        list(np.array([0.5, NAN])), list(np.array([[0.5], [NAN]])),
    ],
    ids=repr,
)  # fmt: skip
def test_the_data_of_an_output_may_be_a_list_a_tuple_or_an_array(data: Any) -> None:
    answer = {"outputs": [{"name": "y", "datatype": "FP32", "shape": [2], "data": data}]}

    found = outputs(run("none", lambda *_: [answer], "v2", [tensor_request(x=[1])]))

    assert repr(found) == repr([{"y": ("FP32", [0.5, NAN])}])


@pytest.mark.parametrize("kind", [str, str.encode])
def test_outputs_as_json_text_may_have_nan_as_python_writes_it(kind: Callable[[str], Any]) -> None:
    text = json.dumps({"outputs": [{"name": "y", "datatype": "FP32", "shape": [2], "data": [0.5, NAN]}]})

    found = outputs(run("none", lambda *_: [kind(text)], "v2", [tensor_request(x=[1])]))

    assert repr(found) == repr([{"y": ("FP32", [0.5, NAN])}])


def test_outputs_of_rows_without_elements_are_the_handlers_fault() -> None:
    result = run("kserve", lambda *_: [np.zeros((10**4, 0))], "v2", [tensor_request(x=[1])])

    assert result.failure == HandlerFailure(
        'The handler\'s outputs cannot be sent: Tensor "predictions": shape [1, 10000, 0] is 10002 nested lists '
        "for 0 elements; 1024 are served. Send fewer rows, or in fewer dimensions.",
        500,
    )


LOUD = Tensor("x", "INT64", (1,), np.array([1]), {"gain": 2.5, "unit": "dB"})


def test_without_an_envelope_a_v2_request_is_whole() -> None:
    request = v2_request(
        LOUD, parameters={"top_k": 3}, outputs=(OutputRequest("y", {"as": "text"}), OutputRequest("z"))
    )

    assert seen("none", "v2", request) == [
        {
            "body": {
                "id": "1",
                "parameters": {"top_k": 3},
                "inputs": [
                    {
                        "name": "x",
                        "shape": [1],
                        "datatype": "INT64",
                        "data": [1],
                        "parameters": {"gain": 2.5, "unit": "dB"},
                    }
                ],
                "outputs": [{"name": "y", "parameters": {"as": "text"}}, {"name": "z"}],
            }
        }
    ]


def test_a_tensor_has_its_parameters_and_its_requests() -> None:
    """Merged or not: the handler gets tensors of several requests in one list."""
    calls: list[Any] = []

    def record(data: list[Any], _: Any) -> list[Any]:
        calls.append([one.get("parameters") for one in data])
        return [0] * len(data)

    plain = Tensor("y", "INT64", (1,), np.array([1]))
    requests = [v2_request(LOUD, plain, parameters={"top_k": 3, "unit": "B"}), v2_request(LOUD), v2_request(plain)]
    run("kservev2", record, "v2", requests)

    assert calls == [
        [{"top_k": 3, "gain": 2.5, "unit": "dB"}, {"top_k": 3, "unit": "B"}, {"gain": 2.5, "unit": "dB"}, None]
    ]


def test_a_handler_of_tensors_answers_v2_json_with_its_own_names() -> None:
    (answer,) = documents("kservev2", lambda data, _: [np.array([[7]])], "raw", [json_request(V2, id="mine")])

    assert answer == {
        "id": "mine",
        "model_name": "m",
        "model_version": "1.0",
        "outputs": [{"name": "x", "datatype": "INT64", "data": [7], "shape": [1]}],
    }


@pytest.mark.parametrize(("id_", "answered"), [("the client's", "the client's"), (" ", "mine"), (7, "mine")])
def test_an_answer_in_torchserves_api_has_the_id_of_the_tensors_that_it_is_to(id_: object, answered: str) -> None:
    (answer,) = documents("kservev2", lambda *_: [[7]], "raw", [json_request({**V2, "id": id_}, id="mine")])

    assert answer["id"] == answered


@pytest.mark.parametrize(
    ("result", "data"),
    [({"label": "x"}, [{"label": "x"}]), ([1, 2.5, "three", None, True, [4]], [1, 2.5, "three", None, True, [4]]),
     ([[{"a": np.float32(1)}], [2]], [{"a": 1.0}, 2]), (None, [None]), ("text", ["text"])],
)  # fmt: skip
def test_in_torchserves_api_what_is_no_number_stays_an_object(result: Any, data: list[Any]) -> None:
    (answer,) = documents("kservev2", lambda *_: [result], "raw", [json_request(V2)])

    assert answer["outputs"] == [{"name": "x", "datatype": "BYTES", "data": data, "shape": [len(data)]}]


def test_the_parts_of_a_form_are_the_keys_of_a_row() -> None:
    request = HandlerRequest(
        "1",
        (),
        [
            RequestPart("k", "", b"v"),
            RequestPart("file", "image/png", b"\xff"),
            RequestPart("note", "text/plain", b"hi"),
        ],
    )

    assert seen("none", "raw", request) == [{"k": bytearray(b"v"), "file": bytearray(b"\xff"), "note": "hi"}]


def test_an_unknown_envelope_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="no service envelope 'xml'; there are body, json, kserve, kservev2, none"):
        envelope_named("xml")


def test_json_is_compact_and_orjsons_own() -> None:
    (answer,) = run("kserve", lambda *_: [{1: [0.1, None]}], "v1", [instances(1)]).responses

    assert answer.body == orjson.dumps({"predictions": [{"1": [0.1, None]}]})
