"""Models that people publish answer as they do beside the server, by every protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models import asking, models
from tests.models.asking import PROTOCOLS
from tests.models.case import Case, Step
from tests.support.ports import free_port
from tests.support.runtimes import Request, Runtime

Served = tuple[Case, Runtime]


@pytest.fixture(scope="module", params=models.SERVED, ids="-on-".join)
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    name, kind = request.param
    case = models.read(name)
    with models.served(case, kind) as runtime:
        yield case, runtime.wait_ready([name])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_model_answers_as_it_does_beside_the_server(served: Served, protocol: str) -> None:
    case, runtime = served

    answers = asking.walk(runtime, case, PROTOCOLS[protocol])

    wanted = [asking.expected(step, protocol) for step in case.steps]
    assert list(map(asking.differs, answers, wanted)) == [""] * len(wanted)


@pytest.mark.parametrize("served", [("silero-vad", "mar")], ids="-on-".join, indirect=True)
def test_each_client_gets_its_own_state_whole(served: Served) -> None:
    case, runtime = served
    alone = [_from_state(case, float(client)) for client in range(8)]
    expected = [asking.walk(runtime, one, asking.by_grpc) for one in alone]

    with ThreadPoolExecutor(len(alone)) as clients:
        answers = list(clients.map(lambda one: asking.walk(runtime, one, asking.by_grpc), alone))

    assert [list(map(asking.differs, *pair)) for pair in zip(answers, expected, strict=True)] == [[""] * 4] * 8


@pytest.mark.parametrize("served", [("silero-vad", "mar")], ids="-on-".join, indirect=True)
def test_the_metadata_has_the_shape_of_a_scalar(served: Served) -> None:
    case, runtime = served

    assert runtime.get(f"/v2/models/{case.name}").document["inputs"] == [
        {"name": "input", "datatype": "FP32", "shape": [-1, -1]},
        {"name": "state", "datatype": "FP32", "shape": [2, -1, 128]},
        {"name": "sr", "datatype": "INT64", "shape": []},
    ]


@pytest.mark.parametrize("served", [("iris-zipmap", "mar")], ids="-on-".join, indirect=True)
def test_a_response_of_tensors_says_what_it_leaves_out(served: Served) -> None:
    case, runtime = served
    rows = case.steps[0].inputs["X"]
    tensor = {"name": "X", "datatype": "FP32", "shape": rows.shape, "data": rows.tolist()}

    body = json.dumps({"inputs": [tensor]}).encode()
    answer: Any = runtime.send(Request("POST", f"/v2/models/{case.name}/infer", body)).document

    assert [output["name"] for output in answer["outputs"]] == ["output_label"]
    assert answer["parameters"]["left_out"].startswith("output_probability, which has a map for each row")


@pytest.mark.parametrize("kind", models.RUNTIMES)
def test_a_model_is_served_without_the_index_by_the_packages_of_its_node(tmp_path: Path, kind: str) -> None:
    case = models.read("minilm")
    with models.served(case, kind, PACKAGE_CACHE=str(tmp_path)) as runtime:
        runtime.wait_ready([case.name])

    nobody = f"http://127.0.0.1:{free_port()}"
    with models.served(case, kind, PACKAGE_CACHE=str(tmp_path), HTTPS_PROXY=nobody, HTTP_PROXY=nobody) as runtime:
        answers = asking.walk(runtime.wait_ready([case.name]), case, PROTOCOLS["v1"])

    wanted = [asking.expected(step, "v1") for step in case.steps]
    assert list(map(asking.differs, answers, wanted)) == [""] * len(wanted)


def test_a_model_whose_locale_the_machine_lacks_is_served_once_it_is_there(tmp_path: Path) -> None:
    case = models.read("tfidf")
    with models.served(case, "mar", locales=tmp_path) as runtime:
        assert runtime.wait_exit() == 4
        assert "this machine has no locale en_US.UTF-8" in runtime.termination_message

    with models.served(case, "mar") as runtime:
        runtime.wait_ready([case.name])


def _from_state(case: Case, value: float) -> Case:
    """The case, begun with a state of its own."""
    first, *others = case.steps
    state = np.full_like(first.inputs["state"], value / 10)
    begun = Step({**first.inputs, "state": state}, first.outputs)
    return Case(case.name, case.folder, case.are_rows, case.carried, [begun, *others])
