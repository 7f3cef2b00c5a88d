"""A model file whose inputs or outputs are not rows: states, scalars, boxes and maps."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import numpy as np
import pytest

from data_plane.errors import UnprocessableInput
from data_plane.protocol.v2.requests import OutputRequest, TensorMetadata, TensorRequest
from tests.support.batching import call
from tests.support.fake_engine import (
    ROWS,
    FakeEngine,
    Outputs,
    ask_while_busy,
    doubled,
    plain,
    predict,
    request,
    rows,
    serve,
)

# --- models whose inputs are not rows -------------------------------------------------------------------

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


# --- outputs that are not rows --------------------------------------------------------------------------


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
