"""A model file behind both protocols: rows in, rows out, merged and cut back, whatever the engine is."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pytest
from prometheus_client import CollectorRegistry

from data_plane.batching.limits import BatchLimits
from data_plane.batching.metrics import BatchMetricsRegistry
from data_plane.errors import InferenceFailed, InvalidRequest, ServingError, UnprocessableInput, Unsupported
from data_plane.messages import Response
from data_plane.model import Call
from data_plane.protocol import v1
from data_plane.protocol.torchserve.requests import RawRequest
from data_plane.protocol.v2 import bfloat16
from data_plane.protocol.v2.document import JSON_LENGTH
from data_plane.protocol.v2.requests import ModelMetadata, OutputRequest, TensorMetadata, TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Array, Tensor
from mar_runtime.models.tensor_model import TensorModel
from tests.support.batching import call
from tests.support.v2_rest import decode_response, encode_request

Outputs = Mapping[str, Array]

ROWS = TensorMetadata("rows", "FP32", (-1, 2))
TEXTS = TensorMetadata("texts", "BYTES", (-1,))


def doubled(inputs: Outputs) -> Outputs:
    """Refuses negative numbers and fails on those over 100."""
    rows = inputs["rows"]
    if (rows < 0).any():
        raise UnprocessableInput("no negative numbers")
    if (rows > 100).any():
        raise InferenceFailed("too large")
    return {"out": rows * 2}


@dataclass
class FakeEngine:
    """Keeps the batches; the first waits while `held` is."""

    function: Callable[[Outputs], Outputs] = doubled
    inputs: tuple[TensorMetadata, ...] = (ROWS,)
    outputs: tuple[TensorMetadata, ...] = ()
    platform: str = "fake"
    optional: frozenset[str] = frozenset()
    maps: frozenset[str] = frozenset()
    sizes: list[int] = field(default_factory=list)
    running: threading.Event = field(default_factory=threading.Event)
    free: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.free.set()

    def run(self, inputs: Outputs) -> dict[str, Array]:
        self.running.set()
        self.free.wait()
        self.sizes.append(max((len(array) for array in inputs.values() if array.ndim), default=0))
        return dict(self.function(inputs))

    @contextmanager
    def held(self) -> Iterator[None]:
        self.free.clear()
        yield
        self.free.set()


def serve(engine: FakeEngine) -> TensorModel:
    metrics = BatchMetricsRegistry(CollectorRegistry()).of_model("m")
    return TensorModel("m", "1", engine, limits=BatchLimits(), metrics=metrics)


async def predict(engine: FakeEngine, instances: Any, **others: Any) -> Any:
    body = orjson.dumps({"instances": instances, **others})
    return orjson.loads((await serve(engine).predict(v1.decode_request(body), call())).body)["predictions"]


def request(**tensors: Any) -> TensorRequest:
    return TensorRequest(tuple(Tensor.from_numpy(name, np.array(values)) for name, values in tensors.items()), "42")


def rows(*values: float) -> TensorRequest:
    return TensorRequest((Tensor.from_numpy("rows", np.array([[value, value] for value in values], np.float32)),), "42")


def plain(response: TensorResponse) -> dict[str, Any]:
    return {tensor.name: tensor.data.tolist() for tensor in response.outputs}


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


# --- models whose inputs are no rows -------------------------------------------------------------------

AUDIO = TensorMetadata("audio", "FP32", (-1, -1))
STATE = TensorMetadata("state", "FP32", (2, -1, 3))
RATE = TensorMetadata("rate", "INT64", ())
STEP = {"audio": [[1, 2]], "state": [[[0, 0, 0]], [[1, 1, 1]]], "rate": 16000}


def stepped(inputs: Outputs) -> Outputs:
    """A model of sound with a state of two layers: it adds the rate in kHz to the state."""
    assert inputs["rate"].size == 1
    return {"speech": inputs["audio"].sum(1, keepdims=True), "next": inputs["state"] + inputs["rate"] / 1000}


def recurrent() -> FakeEngine:
    return FakeEngine(stepped, (AUDIO, STATE, RATE), (TensorMetadata("speech", "FP32", (-1, 1)), STATE))


def step(rate: Any = 16000) -> TensorRequest:
    state = np.array(STEP["state"], np.float32)
    return request(audio=np.array(STEP["audio"], np.float32), state=state, rate=rate)


async def test_an_instance_is_all_inputs_and_a_prediction_all_outputs() -> None:
    first, second = await predict(recurrent(), [STEP, {**STEP, "audio": [[1, 2], [3, 4]], "rate": 8000}])

    assert first == {"speech": [[3]], "next": [[[16, 16, 16]], [[17, 17, 17]]]}
    assert second == {"speech": [[3], [7]], "next": [[[8, 8, 8]], [[9, 9, 9]]]}


async def test_a_state_goes_from_prediction_to_instance_as_it_is() -> None:
    engine = recurrent()
    (first,) = await predict(engine, [STEP])

    (second,) = await predict(engine, [{**STEP, "state": first["next"]}])

    assert second["next"] == [[[32, 32, 32]], [[33, 33, 33]]]


async def test_an_instance_of_a_model_of_one_input_may_be_its_value() -> None:
    engine = FakeEngine(lambda inputs: {"out": inputs["rate"] * 2}, (RATE,))

    assert await predict(engine, [16000, [8000], {"rate": 1}]) == [32000, [16000], 2]


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        (
            {**STEP, "rate": 1.5},
            'Instance 1 cannot be read. Tensor "rate": element 0 is 1.5; INT64 takes whole numbers',
        ),
        (
            {**STEP, "rates": 1},
            "Model m takes the inputs audio, state, rate; the request has audio, state, rate, rates.",
        ),
        ({**STEP, "state": [[0], 1]}, 'Instance 1 cannot be read. Tensor "state": its data is uneven'),
    ],
)
async def test_an_instance_that_cannot_be_read_is_named(instance: Any, message: str) -> None:
    with pytest.raises(UnprocessableInput) as raised:
        await predict(recurrent(), [STEP, instance])

    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("rate", [16000, [16000]])
async def test_a_request_is_never_merged_and_its_state_comes_back_whole(rate: Any) -> None:
    engine = recurrent()
    model = serve(engine)

    answers = await asyncio.gather(*(model.infer(step(rate), call()) for _ in range(3)))

    assert [plain(answer) for answer in answers] == [{"speech": [[3]], "next": [[[16, 16, 16]], [[17, 17, 17]]]}] * 3
    assert engine.sizes == [2, 2, 2]


async def test_a_model_of_one_row_gets_one_instance_at_a_time() -> None:
    engine = FakeEngine(inputs=(TensorMetadata("rows", "FP32", (1, 2)),))

    assert await predict(engine, [[1, 2], [3, 4]]) == [[2, 4], [6, 8]]
    assert await predict(engine, [{"rows": [1, 2]}, {"rows": [3, 4]}]) == [[2, 4], [6, 8]]
    assert engine.sizes == [1] * 4


async def test_a_value_beside_rows_is_given_to_each_instance_alone() -> None:
    scaled = lambda inputs: {"out": inputs["rows"] * inputs.get("scale", 2)}  # noqa: E731
    engine = FakeEngine(scaled, (ROWS, TensorMetadata("scale", "INT64", ())), optional=frozenset({"scale"}))

    assert await predict(engine, [{"rows": [1, 2], "scale": 3}, {"rows": [3, 4], "scale": 1}]) == [[3, 6], [3, 4]]
    assert await predict(engine, [[1, 2], [3, 4]]) == [[2, 4], [6, 8]]
    assert engine.sizes == [1, 1, 2, 1]  # the last one shows whether two rows of an output are those of the inputs


# --- outputs that are no rows --------------------------------------------------------------------------


def boxes(inputs: Outputs) -> Outputs:
    """As many boxes as the numbers say, of all rows."""
    return {"boxes": np.repeat(inputs["rows"], inputs["rows"][:, 0].astype(int), axis=0)}


async def test_outputs_that_are_no_rows_are_a_prediction_of_each_instance() -> None:
    assert await predict(FakeEngine(boxes), [[2, 5], [3, 6]]) == [[[2, 5]] * 2, [[3, 6]] * 3]
    assert await predict(FakeEngine(lambda inputs: {"sum": inputs["rows"].sum()}), [[2, 5], [3, 6]]) == [7, 9]


async def test_two_instances_are_not_taken_for_the_two_layers_of_a_state() -> None:
    engine = FakeEngine(lambda inputs: {"state": np.stack([inputs["rows"]] * 2)})

    assert await predict(engine, [[1, 2], [3, 4]]) == [[[[1, 2]], [[1, 2]]], [[[3, 4]], [[3, 4]]]]


async def test_instances_of_a_model_that_takes_no_single_row_are_run_together() -> None:
    def doubled_pairs(inputs: Outputs) -> Outputs:
        if len(inputs["rows"]) < 2:
            raise UnprocessableInput("not exported for this")
        return doubled(inputs)

    assert await predict(FakeEngine(doubled_pairs), [[1, 2], [3, 4]]) == [[2, 4], [6, 8]]


async def test_requests_get_whole_outputs_even_if_these_look_like_rows_of_a_batch() -> None:
    # The state of two layers has as many rows as two merged requests of one row.
    engine = FakeEngine(lambda inputs: {"state": np.stack([inputs["rows"]] * 2)})
    model = serve(engine)

    answers = await asyncio.gather(*(model.infer(rows(value), call()) for value in (1, 2)))
    later = await asyncio.gather(*(model.infer(rows(value), call()) for value in (3, 4)))

    assert [plain(answer) for answer in (*answers, *later)] == [
        {"state": [[[value, value]]] * 2} for value in (1, 2, 3, 4)
    ]
    assert engine.sizes == [2, 1, 1, 1, 1]


async def test_outputs_of_which_each_row_is_about_the_other_rows_are_not_merged() -> None:
    # As CLIP compares each picture with each text.
    engine = FakeEngine(lambda inputs: {"similar": inputs["rows"] @ inputs["rows"].T})
    model = serve(engine)

    await model.infer(rows(1), call())
    answers = await asyncio.gather(*(model.infer(rows(value), call()) for value in (1, 2)))

    assert [plain(answer) for answer in answers] == [{"similar": [[2]]}, {"similar": [[8]]}]


async def test_a_model_whose_outputs_are_declared_to_have_no_rows_never_runs_a_batch() -> None:
    engine = FakeEngine(lambda inputs: {"state": np.stack([inputs["rows"]] * 2)}, outputs=(STATE,))

    await ask_while_busy(engine, rows(1), rows(2))

    assert engine.sizes == [1, 1, 1]


# --- outputs that are maps -----------------------------------------------------------------------------


def classified(inputs: Outputs) -> Outputs:
    found = np.empty(len(inputs["rows"]), dtype=object)
    found[:] = [{1: float(first), "other": 0.5} for first, _ in inputs["rows"]]
    return {"label": inputs["rows"][:, 0].astype(np.int64), "chances": found}


def classifier() -> FakeEngine:
    return FakeEngine(classified, outputs=(TensorMetadata("label", "INT64", (-1,)),), maps=frozenset({"chances"}))


LEFT_OUT = (
    "chances, which has a map for each row, and no tensor holds that. Use the v1 protocol, or convert the model with "
    "skl2onnx's options={'zipmap': False}, which makes it a tensor"
)


async def test_a_map_is_an_object_in_its_prediction() -> None:
    assert await predict(classifier(), [[1, 2], [3, 4]]) == [
        {"label": 1, "chances": {"1": 1, "other": 0.5}},
        {"label": 3, "chances": {"1": 3, "other": 0.5}},
    ]


async def test_a_response_of_tensors_says_that_it_leaves_out_the_maps() -> None:
    response = await serve(classifier()).infer(rows(1, 2), call())

    assert plain(response) == {"label": [1, 2]}
    assert response.parameters == {"left_out": LEFT_OUT}


async def test_maps_cannot_be_asked_for_as_tensors() -> None:
    asked = dataclasses.replace(rows(1), outputs=(OutputRequest("chances"),))

    with pytest.raises(UnprocessableInput) as raised:
        await serve(classifier()).infer(asked, call())

    assert str(raised.value) == f"Model m cannot give over the v2 protocol: {LEFT_OUT}."


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
        (b"\x89PNG", "a model without a handler takes numbers."),
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


# --- batches -----------------------------------------------------------------------------------------


async def ask_while_busy(
    engine: FakeEngine, *requests: TensorRequest
) -> list[dict[str, Any] | ServingError | BaseException]:
    """The answers to requests that queue up behind another."""
    model = serve(engine)
    with engine.held():
        first = asyncio.ensure_future(model.infer(rows(0), call()))
        await asyncio.to_thread(engine.running.wait)
        others = [asyncio.ensure_future(model.infer(one, call())) for one in requests]
        await asyncio.sleep(0)
        assert model.queue.waiting == len(requests)
    await first
    answers = await asyncio.gather(*others, return_exceptions=True)
    return [plain(answer) if isinstance(answer, TensorResponse) else answer for answer in answers]


async def test_requests_that_wait_are_run_together_and_get_their_own_rows() -> None:
    engine = FakeEngine()

    answers = await ask_while_busy(engine, rows(1), rows(2, 3), rows(4))

    assert answers == [{"out": [[2, 2]]}, {"out": [[4, 4], [6, 6]]}, {"out": [[8, 8]]}]
    assert engine.sizes == [1, 4]


async def test_bf16_stays_what_it_is_when_a_batch_is_cut() -> None:
    engine = FakeEngine(lambda inputs: {"out": inputs["rows"].view(bfloat16.Numbers)})
    model = serve(engine)

    with engine.held():
        first = asyncio.ensure_future(model.infer(rows(0), call()))
        await asyncio.to_thread(engine.running.wait)
        merged = [asyncio.ensure_future(model.infer(rows(value), call())) for value in (1, 2)]
        await asyncio.sleep(0)
    await first
    outputs = [(await one).outputs[0] for one in merged]

    assert engine.sizes == [1, 2]
    assert [(output.datatype, output.data.tolist()) for output in outputs] == [("BF16", [[1, 1]]), ("BF16", [[2, 2]])]


@pytest.mark.parametrize(("bad", "error"), [(-1, UnprocessableInput), (101, InferenceFailed)])
async def test_a_bad_request_fails_alone(bad: float, error: type[ServingError]) -> None:
    first, second, third = await ask_while_busy(FakeEngine(), rows(1), rows(bad), rows(3))

    assert (first, type(second), third) == ({"out": [[2, 2]]}, error, {"out": [[6, 6]]})


async def test_requests_of_different_shapes_or_types_are_never_merged() -> None:
    engine = FakeEngine(lambda inputs: {"out": inputs["rows"]})

    await ask_while_busy(engine, rows(1), request(rows=[[1.0, 2.0]]), request(rows=[[1, 2, 3]]), rows(2))

    assert sorted(engine.sizes) == [1, 1, 1, 2]


async def test_inputs_without_rows_are_run_alone() -> None:
    engine = FakeEngine(lambda inputs: {"out": inputs["rows"]}, (ROWS, TEXTS))
    uneven = request(rows=[[1.0, 2.0]], texts=["a", "b"])

    await ask_while_busy(engine, uneven, uneven)

    assert engine.sizes == [1, 2, 2]


async def test_a_model_that_knows_one_batch_size_gets_each_request_as_it_is() -> None:
    engine = FakeEngine(inputs=(TensorMetadata("rows", "FP32", (1, 2)),))

    await ask_while_busy(engine, rows(1), rows(2))

    assert engine.sizes == [1, 1, 1]


async def test_results_that_are_not_one_for_each_row_reach_nobody() -> None:
    engine = FakeEngine(lambda inputs: {"out": np.zeros((1, 1))})

    answers = await ask_while_busy(engine, rows(1, 1), rows(2, 2))

    # Alone there is nothing to be cut.
    assert answers == [{"out": [[0]]}, {"out": [[0]]}]
    assert engine.sizes == [1, 4, 2, 2]
