"""Requests that come at once: each gets its own answer, whatever the others are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.archives import HANDLERS
from tests.conformance.batches import ENVELOPED, ONE_RAISES, PLAIN, TEXTS
from tests.conformance.case import predictions, v2
from tests.conformance.conftest import Record
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import OURS, TORCHSERVE, Answer, Request, Runtime

pytestmark = pytest.mark.timeout(600)
each_of_ours = pytest.mark.parametrize("kind", OURS)


def _texts(answers: Sequence[Answer]) -> list[object]:
    return [answer.document["text"] if answer.status == 200 else answer.status for answer in answers]


@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
def test_requests_without_an_envelope_are_answered_each(recorded: Record, kind: str) -> None:
    assert _texts(recorded(kind, "").batches[PLAIN.name]) == list(TEXTS)


def test_torchserve_fails_a_batch_for_one_of_its_requests(recorded: Record) -> None:
    assert 503 in _texts(recorded(TORCHSERVE, "").batches[ONE_RAISES.name])[1:]


@each_of_ours
def test_a_request_that_makes_the_handler_raise_fails_alone(recorded: Record, kind: str) -> None:
    failed, *others = recorded(kind, "").batches[ONE_RAISES.name]

    assert (failed.status, "one of these cannot be read" in failed.document["error"]) == (500, True)
    assert _texts(others) == list(TEXTS[1:])


def test_torchserve_fails_a_batch_behind_an_envelope(recorded: Record) -> None:
    assert 503 in [answer.status for answer in recorded(TORCHSERVE, "kserve").batches[ENVELOPED.name]]


@each_of_ours
def test_the_instances_of_each_request_are_predicted_in_order(recorded: Record, kind: str) -> None:
    answers = recorded(kind, "kserve").batches[ENVELOPED.name]

    texts = [[prediction["text"] for prediction in answer.document["predictions"]] for answer in answers]
    assert texts == [list(TEXTS[: number + 1]) for number in range(len(TEXTS))]


@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
def test_a_handler_of_which_nothing_is_said_gets_one_row_at_a_time(tmp_path: Path, kind: str) -> None:
    bodies = [b"body %d" % number for number in range(8)]

    answers = _answers_by_the_first_row(kind, tmp_path, [predictions("first", body) for body in bodies])

    assert [answer.body for answer in answers] == bodies


@pytest.mark.parametrize("kind", [TORCHSERVE, *OURS])
def test_a_handler_of_tensors_gets_those_of_one_request_at_a_time(tmp_path: Path, kind: str) -> None:
    tensor = {"name": "x", "datatype": "INT64", "shape": [1]}
    requests = [v2("first", json.dumps({"inputs": [{**tensor, "data": [number]}]}).encode()) for number in range(8)]

    answers = _answers_by_the_first_row(kind, tmp_path, requests, "service_envelope=kservev2")

    assert [answer.document["outputs"] for answer in answers] == [[{**tensor, "data": [number]}] for number in range(8)]


def _answers_by_the_first_row(kind: str, folder: Path, requests: Sequence[Request], *lines: str) -> list[Answer]:
    """To requests that come at once, of a handler that reads no other row."""
    handler = {"first_row.py": (HANDLERS / "first_row.py").read_bytes()}
    write_mar(folder / "model-store/first.mar", manifest(modelName="first", handler="first_row.py"), handler)
    (folder / "config").mkdir()
    settings = ["load_models=all", "default_workers_per_model=1", *lines, ""]
    (folder / "config/config.properties").write_text("\n".join(settings))
    with Runtime(kind, folder) as runtime, ThreadPoolExecutor(len(requests)) as clients:
        runtime.wait_ready(["first"])
        return list(clients.map(runtime.send, requests))
