"""The sample `resnet50` with a smaller network: pictures in every form, answered by our runtimes as by TorchServe."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.case import predictions
from tests.conformance.recording import RECORDED, as_recorded, read_answer
from tests.conformance.resnet50 import MODELS, PICTURE, SAMPLE, uploaded, with_one_worker
from tests.support.runtimes import OURS, Request, Runtime

pytestmark = pytest.mark.timeout(600)
# Both models are handlers of one kind, and the runtimes' workers have the same code: the adapter serves one of them.
SERVED = {"adapter": ("tags",), "mar": MODELS}


@pytest.fixture(scope="module", params=OURS)
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    models = SERVED[request.param]
    with Runtime(request.param, with_one_worker(tmp_path_factory.mktemp("resnet50"), *models)) as running:
        yield running.wait_ready(models)


def in_an_instance(model: str) -> Request:
    instance = {"data": base64.b64encode(PICTURE).decode()}
    return Request("POST", f"/v1/models/{model}:predict", json.dumps({"instances": [instance]}).encode())


def test_an_uploaded_picture_is_answered_as_by_torchserve(runtime: Runtime) -> None:
    for model in SERVED[runtime.kind]:
        reference = read_answer(RECORDED / f"resnet50/{model}.json")

        answer = as_recorded(reference, runtime.send(uploaded(model)))

        assert (answer.status, answer.body) == (200, reference.body)


def test_the_likeliest_tags_come_first_as_many_as_were_asked_for(runtime: Runtime) -> None:
    tags = runtime.send(uploaded("tags", k=b"3")).document

    assert [sorted(tag) for tag in tags] == [["probability", "tag"]] * 3
    assert sorted(tags, key=lambda tag: -tag["probability"]) == tags


@pytest.mark.parametrize("form", [in_an_instance, lambda model: Request("PUT", f"/predictions/{model}", PICTURE)])
def test_the_same_picture_in_another_form_has_the_same_tags(runtime: Runtime, form: Callable[[str], Request]) -> None:
    uploaded_tags = runtime.send(uploaded("tags")).document

    other: Any = runtime.send(form("tags")).document

    assert (other["predictions"][0] if isinstance(other, dict) else other) == uploaded_tags


def test_what_is_no_picture_fails_alone(runtime: Runtime) -> None:
    requests = [uploaded("tags"), predictions("tags", b"no picture"), uploaded("tags"), uploaded("tags", k=b"none")]
    with ThreadPoolExecutor(len(requests)) as clients:
        answers = list(clients.map(runtime.send, requests))

    assert [answer.status for answer in answers] == [200, 400, 200, 400]
    assert "This is no picture" in answers[1].document["error"]
    assert "k is to be a whole number above 0" in answers[3].document["error"]


def test_the_load_script_says_how_fast_and_in_which_batches(runtime: Runtime, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    picture.write_bytes(PICTURE)
    address = f"127.0.0.1:{runtime.port}"
    command = [sys.executable, SAMPLE / "load.py", picture, "--address", address, "--clients", "4", "--seconds", "0.2"]

    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert said.startswith("4 clients: ")
    assert "batches:" in said


@pytest.mark.parametrize("runtime", ["mar"], indirect=True)
def test_an_embedding_has_2048_numbers(runtime: Runtime) -> None:
    embedding = runtime.send(uploaded("embedding")).document

    assert (len(embedding), {type(number) for number in embedding}) == (2048, {float})
