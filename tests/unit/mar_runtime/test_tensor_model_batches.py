"""Requests to a model file that wait: they are merged, and each gets its own rows."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from data_plane.errors import InferenceFailed, ServingError, UnprocessableInput
from data_plane.protocol.v2 import bfloat16
from data_plane.protocol.v2.requests import TensorMetadata
from tests.support.batching import call
from tests.support.fake_engine import (
    ROWS,
    TEXTS,
    FakeEngine,
    ask_while_busy,
    request,
    rows,
    serve,
)


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
