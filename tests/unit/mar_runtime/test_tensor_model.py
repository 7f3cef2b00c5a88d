"""A model file behind both protocols: rows in, rows out, whatever the engine is."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import orjson
import pytest

from data_plane.errors import InvalidRequest, UnprocessableInput, Unsupported
from data_plane.messages import Response
from data_plane.model import Call
from data_plane.protocol import v1
from data_plane.protocol.torchserve.requests import RawRequest
from data_plane.protocol.v2 import bfloat16
from data_plane.protocol.v2.document import JSON_LENGTH
from data_plane.protocol.v2.requests import ModelMetadata, TensorMetadata, TensorRequest
from data_plane.protocol.v2.tensors import Array, Tensor
from tests.support.batching import call
from tests.support.fake_engine import (
    ROWS,
    TEXTS,
    FakeEngine,
    plain,
    predict,
    request,
    rows,
    serve,
)
from tests.support.v2_rest import decode_response, encode_request


async def test_it_says_what_the_file_says() -> None:
    engine = FakeEngine(outputs=(TensorMetadata("out", "FP32", (-1, 2)),))

    assert await serve(engine).metadata() == ModelMetadata("m", ("1",), "fake", (ROWS,), engine.outputs)


# --- v1 ----------------------------------------------------------------------------------------------


async def test_an_instance_is_a_row_of_the_first_input() -> None:
    assert await predict(FakeEngine(), [[1, 2], [3, 4.5]]) == [[2, 4], [6, 9]]


async def test_an_instance_may_name_the_input() -> None:
    assert await predict(FakeEngine(), [{"rows": [1, 2]}]) == [[2, 4]]


async def test_no_instances_have_no_predictions() -> None:
    engine = FakeEngine()

    assert await predict(engine, []) == []
    assert engine.sizes == []


async def test_instances_of_several_inputs_are_objects_and_so_are_the_predictions_of_several_outputs() -> None:
    engine = FakeEngine(lambda inputs: {"a": inputs["rows"], "b": inputs["texts"]}, (ROWS, TEXTS))

    instances = [{"rows": [1, 2], "texts": "x"}, {"rows": [3, 4], "texts": "y"}]
    assert await predict(engine, instances) == [{"a": [1, 2], "b": "x"}, {"a": [3, 4], "b": "y"}]


async def test_an_instance_of_several_inputs_that_is_no_object_is_refused() -> None:
    engine = FakeEngine(inputs=(ROWS, TEXTS))

    with pytest.raises(UnprocessableInput, match=r"^Every instance must be an object with the inputs rows, texts\.$"):
        await predict(engine, [[1, 2]])
    assert await predict(FakeEngine(inputs=(ROWS, TEXTS), optional=frozenset({"texts"})), [[1, 2]]) == [[2, 4]]


async def test_an_input_may_be_left_out_where_the_engine_allows_it() -> None:
    engine = FakeEngine(lambda inputs: {name: inputs[name] for name in inputs}, (ROWS, TEXTS))

    assert await predict(engine, [{"rows": [1, 2]}]) == [[1, 2]]


@pytest.mark.parametrize(
    ("array", "predictions"),
    [
        (np.array([[True], [False]]), [[True], [False]]),
        (np.array([[1.5], [2]], np.float16), [[1.5], [2]]),
        (np.array([[1.5], [2]], np.float32).view(bfloat16.Numbers), [[1.5], [2]]),
        (np.array([2**63, 1], np.uint64), [2**63, 1]),
        (np.array([[1, 2], [3, 4]], np.int8).T, [[1, 3], [2, 4]]),
        (np.array([b"a", b"\xff"], dtype=object), ["a", "�"]),
        (np.array([[b"a"], [b"b"]], dtype=object), [["a"], ["b"]]),
    ],
)
async def test_predictions_of_every_datatype_are_written(array: Array, predictions: Any) -> None:
    engine = FakeEngine(lambda inputs: {"out": array[: len(inputs["rows"])]})

    assert await predict(engine, [[1, 2], [3, 4]]) == predictions


@pytest.mark.parametrize(
    ("instances", "message"),
    [
        (
            [[1], [2, 3]],
            'Tensor "rows": its data is uneven at level 1 of nesting; lists of one level have the same length',
        ),
        ([1, [2]], 'Tensor "rows": element 1 is [2]; FP32 takes numbers'),
        ([[[1], 2]], 'Instance 0 cannot be read. Tensor "rows": its data is uneven at level 2 of nesting'),
        ([{"rows": [1, 2]}, [3, 4]], 'Every instance must be an object with a "rows".'),
        ([{"rows": [1, 2]}, {}], 'Every instance must be an object with a "rows".'),
        ([{"rows": [1, 2], "row": 1}], "Model m takes the inputs rows; the request has rows, row."),
    ],
)
async def test_instances_that_are_no_rows_are_refused(instances: Any, message: str) -> None:
    with pytest.raises(UnprocessableInput) as raised:
        await predict(FakeEngine(), instances)

    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("name", ["rows", "data", "x"])
async def test_a_single_input_has_any_name_over_both_protocols(name: str) -> None:
    tensor = TensorRequest((Tensor.from_numpy(name, np.array([[1, 2]], np.float32)),))

    over_v2 = await serve(FakeEngine()).infer(tensor, call())

    assert await predict(FakeEngine(), [{name: [1, 2]}, {name: [3, 4]}]) == [[2, 4], [6, 8]]
    assert [one.data.tolist() for one in over_v2.outputs] == [[[2, 4]]]


async def test_a_request_of_v2_is_told_its_path() -> None:
    tensor = {"name": "rows", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
    body = orjson.dumps({"inputs": [tensor]})

    with pytest.raises(UnprocessableInput) as raised:
        await serve(FakeEngine()).predict(v1.decode_request(body), call())

    assert str(raised.value) == (
        "The request is of the v2 protocol, and this path takes v1; send it to /v2/models/m/infer."
    )


@pytest.mark.parametrize(
    ("datatype", "instances", "message"),
    [
        ("FP32", [["5", "6"]], "Instance 0 cannot be read. Tensor \"rows\": element 0 is '5'; FP32 takes numbers from"),
        (
            "FP32",
            [[1, 2], [1, None]],
            'Instance 1 cannot be read. Tensor "rows": element 1 is None; FP32 takes numbers',
        ),
        ("FP32", [[True, 1]], 'Instance 0 cannot be read. Tensor "rows": element 0 is True; FP32 takes numbers from'),
        ("FP32", [[1e39, 2]], 'Instance 0 cannot be read. Tensor "rows": element 0 is 1e+39; FP32 takes numbers from'),
        ("FP32", [[{"b64": ""}]], "Instance 0 cannot be read. Tensor \"rows\": element 0 is {'b64': ''}; FP32 takes"),
        ("INT64", [[1.7, 3]], 'Instance 0 cannot be read. Tensor "rows": element 0 is 1.7; INT64 takes whole numbers'),
        ("INT8", [[128]], 'Instance 0 cannot be read. Tensor "rows": element 0 is 128; INT8 takes whole numbers from'),
        ("BOOL", [[1]], 'Instance 0 cannot be read. Tensor "rows": element 0 is 1; BOOL takes true and false.'),
        ("BYTES", ["a", None], 'Instance 1 cannot be read. Tensor "rows": element 0 is None; BYTES takes strings.'),
    ],
)
async def test_a_value_that_is_not_of_the_inputs_datatype_is_refused(
    datatype: str, instances: Any, message: str
) -> None:
    engine = FakeEngine(inputs=(TensorMetadata("rows", datatype, (-1, -1)),))

    with pytest.raises(UnprocessableInput) as raised:
        await predict(engine, instances)

    assert str(raised.value).startswith(message)
    assert engine.sizes == []


@pytest.mark.parametrize(
    ("datatype", "instances"),
    [
        ("FP64", [[1, 2.5], [-3, 1e300]]),
        ("INT64", [[-(2**63), 2**63 - 1]]),
        ("UINT64", [[2**64 - 1]]),
        ("BOOL", [[True, False]]),
        ("BYTES", [["a", "ü"], ["", "b"]]),
        ("FP32", [[[[1, 2], [3, 4]]], [[[5, 6], [7, 8]]]]),
        ("FP32", [[], []]),
        ("FP32", [1, 2]),
    ],
)
async def test_values_of_the_inputs_datatype_reach_the_model_as_they_are(datatype: str, instances: Any) -> None:
    engine = FakeEngine(lambda inputs: {"out": inputs["rows"]}, (TensorMetadata("rows", datatype, (-1,)),))

    assert await predict(engine, instances) == instances


async def test_a_number_that_no_float_holds_is_refused() -> None:
    body = v1.decode_request(b'{"instances": [[1e999, 1]]}')

    with pytest.raises(InvalidRequest, match="not valid JSON"):
        await serve(FakeEngine()).predict(body, call())


async def test_nothing_is_explained() -> None:
    model, body = serve(FakeEngine()), v1.decode_request(b'{"instances": [[1, 2]]}')

    with pytest.raises(Unsupported, match="Model m has no handler that could explain"):
        await model.explain(body, call())
    with pytest.raises(Unsupported):
        await model.raw(RawRequest(body.body, explain=True), call())


# --- v2 ----------------------------------------------------------------------------------------------


async def test_a_lone_input_may_have_any_name() -> None:
    assert plain(await serve(FakeEngine()).infer(request(x=[[1.0, 2.0]]), call())) == {"out": [[2, 4]]}


async def test_an_input_that_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(UnprocessableInput, match="Model m takes the inputs rows, texts; the request has rows, words"):
        await serve(FakeEngine(inputs=(ROWS, TEXTS))).infer(request(rows=[[1.0, 2.0]], words=[1]), call())


async def test_a_raw_body_is_a_v2_request() -> None:
    body = b'{"inputs": [{"name": "rows", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}'

    answer: Response = await serve(FakeEngine()).raw(RawRequest(body, "application/json"), call())

    assert orjson.loads(answer.body)["outputs"] == [
        {"name": "out", "datatype": "FP32", "shape": [1, 2], "data": [2, 4]}
    ]


async def test_a_raw_body_may_be_a_v1_request() -> None:
    answer = await serve(FakeEngine()).raw(RawRequest(b'{"instances": [[1, 2]]}', "application/json"), call())

    assert answer == Response(b'{"predictions":[[2.0,4.0]]}')


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", 'The request body is empty; send {"instances": [...]}.'),
        (b"[[1, 2]]", 'The request body is a JSON list, not an object; send {"instances": [...]}.'),
        (b'{"data": [[1, 2]]}', 'The request has no "instances"; send {"instances": [...]}.'),
        (b'{"inputs": [{"name": "rows"}]}', "Object missing required field `datatype` - at `$.inputs[0]`"),
        (b"\x89PNG", 'The request body is not JSON but bytes of another kind; send {"instances": [...]}.'),
        (b"\x1f\x8b", "It is compressed by gzip; send it uncompressed."),
    ],
)
async def test_a_raw_body_of_neither_protocol_is_told_what_to_be(body: bytes, message: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        await serve(FakeEngine()).raw(RawRequest(body), call())


async def test_a_raw_body_may_have_binary_tensors_both_ways() -> None:
    body, json_length = encode_request(rows(1, 2), binary=True)
    document = orjson.loads(body[:json_length])
    text = orjson.dumps({**document, "parameters": {"binary_data_output": True}})
    own = Call(((JSON_LENGTH, str(len(text)).encode()),), "1", lambda: False)

    answer = await serve(FakeEngine()).raw(RawRequest(text + body[json_length:], "application/octet-stream"), own)

    ((name, length),) = answer.headers
    assert (answer.content_type, name) == (b"application/octet-stream", JSON_LENGTH)
    assert plain(decode_response(answer.body, int(length))) == {"out": [[2, 2], [4, 4]]}
