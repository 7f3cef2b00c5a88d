"""A model file whose inputs share no first dimension, asked by every protocol of the real server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models import asking
from tests.models.asking import PROTOCOLS
from tests.models.case import Case, Step
from tests.support.runtimes import Runtime

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
NAME = "recurrent"


def save(path: Path) -> None:
    """Sound with a state of two layers, to which it adds the rate, and which it tells the sum of."""
    nodes = [
        helper.make_node("Cast", ["rate"], ["number"], to=FLOAT),
        helper.make_node("Add", ["state", "number"], ["next"]),
        helper.make_node("ReduceSum", ["next"], ["total"], keepdims=0),
        helper.make_node("Neg", ["sound"], ["speech"]),
    ]
    inputs = [("sound", FLOAT, ["batch", "samples"]), ("state", FLOAT, [2, "batch", 3]), ("rate", INT64, [])]
    outputs = [("speech", FLOAT, ["batch", "samples"]), ("next", FLOAT, [2, "batch", 3]), ("total", FLOAT, [])]
    graph = helper.make_graph(
        nodes, NAME, *([helper.make_tensor_value_info(*port) for port in ports] for ports in (inputs, outputs))
    )
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)]), path)


def case(first: float = 0) -> Case:
    """Three calls that carry the state, begun with one of its own."""
    sound, state, steps = np.ones((1, 4), np.float32), np.full((2, 1, 3), first, np.float32), []
    for _ in range(3):
        after = state + 8
        inputs = {"sound": sound, "state": state, "rate": np.array(8)}
        steps.append(Step(inputs, {"speech": -sound, "next": after, "total": np.array(after.sum())}))
        state = after
    return Case(NAME, Path(), are_rows=False, carried={"state": "next"}, steps=steps)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("files")
    save(folder / f"{NAME}.onnx")
    with Runtime("mar", folder, "--service-name", NAME) as running:
        yield running.wait_ready([NAME])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_states_and_scalars_go_both_ways_by(runtime: Runtime, protocol: str) -> None:
    answers = asking.walk(runtime, case(), PROTOCOLS[protocol])

    assert [asking.differs(found, step.outputs) for found, step in zip(answers, case().steps, strict=True)] == [""] * 3


def test_clients_at_the_same_time_get_their_own_states(runtime: Runtime) -> None:
    cases = [case(first) for first in range(8)]

    with ThreadPoolExecutor(len(cases)) as clients:
        answers = list(clients.map(lambda one: asking.walk(runtime, one, asking.by_json), cases))

    found = [
        [asking.differs(outputs, step.outputs) for outputs, step in zip(walked, one.steps, strict=True)]
        for walked, one in zip(answers, cases, strict=True)
    ]
    assert found == [[""] * 3] * len(cases)


def test_its_metadata_has_the_shapes_of_scalars_and_states(runtime: Runtime) -> None:
    document = runtime.get(f"/v2/models/{NAME}").document

    assert {one["name"]: one["shape"] for one in (*document["inputs"], *document["outputs"])} == {
        "sound": [-1, -1], "state": [2, -1, 3], "rate": [], "speech": [-1, -1], "next": [2, -1, 3], "total": [],
    }  # fmt: skip
