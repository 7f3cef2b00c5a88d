"""Requests that wait for the one worker go to it together; what may happen to them meanwhile."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from tests.integration.torchserve.handlers import LENGTHS
from tests.integration.torchserve.running import Adapter, model_dir
from tests.support.archives import build_archive
from tests.support.raw_client import Visitor
from tests.support.runtimes import Answer

QUEUE = 8
REFUSED = 4
# The batch size is the model's, the limit of the queue everybody's; both are far from what TorchServe gets.
CONFIG = f"""
load_models=lengths.mar
models={{"lengths": {{"1.0": {{"marName": "lengths.mar", "minWorkers": 1, "maxWorkers": 1, "batchSize": 16, \
"maxBatchDelay": 60000}}}}}}
job_queue_size={QUEUE}
"""


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapter]:
    folder = model_dir(tmp_path_factory.mktemp("batches") / "models", CONFIG)
    build_archive(folder / "model-store", "lengths.mar", LENGTHS)
    with Adapter(folder) as running:
        yield running.wait_all_ready()


class Held:
    """The worker, held by a request until the block ends, and clients that ask meanwhile."""

    def __init__(self, adapter: Adapter, folder: Path) -> None:
        self._adapter = adapter
        self._release = folder / "release"
        self._clients = ThreadPoolExecutor(QUEUE + REFUSED + 1)
        self._asked: list[Future[Answer]] = []

    def __enter__(self) -> Held:
        self._clients.submit(self._predict, f"wait for {self._release}")
        self._adapter.wait_until(self._release.with_suffix(".reached").exists, "a request holds the worker")
        return self

    def __exit__(self, *_: object) -> None:
        self._release.touch()
        self._clients.shutdown()

    def ask(self, *texts: str) -> list[Future[Answer]]:
        asked = [self._clients.submit(self._predict, text) for text in texts]
        self._asked += asked
        return asked

    def wait_refused(self, count: int) -> None:
        """Until so many of those asked have their answer, as the queue is full: the others are in it."""
        while sum(one.done() for one in self._asked) < count:
            wait([one for one in self._asked if not one.done()], return_when=FIRST_COMPLETED)

    def _predict(self, text: str) -> Answer:
        return self._adapter.predict("lengths", {"instances": [{"data": text}]})


def figures(adapter: Adapter) -> dict[str, float]:
    """The adapter's figures on its batches."""
    series = re.findall(r'^(\w+)\{model_name="lengths"\} (\S+)$', adapter.metrics(), re.MULTILINE)
    return {name: float(value) for name, value in series}


def growth(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    names = (
        "batch_size_requests_count", "batch_size_requests_sum", "batch_size_instances_sum", "batches_retried_total",
        "requests_rejected_total", "requests_abandoned_total",
    )  # fmt: skip
    return {name: after[name] - before[name] for name in names if after[name] != before[name]}


def test_requests_that_wait_are_one_batch_and_those_beyond_the_queue_are_refused(
    adapter: Adapter, tmp_path: Path
) -> None:
    before = figures(adapter)
    with Held(adapter, tmp_path) as held:
        asked = held.ask(*["x" * length for length in range(QUEUE + REFUSED)])
        held.wait_refused(REFUSED)
    answers = [one.result() for one in asked]

    served = [(length, answer) for length, answer in enumerate(answers) if answer.status == 200]
    refused = [answer for answer in answers if answer.status == 429]
    assert [answer.document for _, answer in served] == [{"predictions": [length]} for length, _ in served]
    assert (len(served), len(refused)) == (QUEUE, REFUSED)
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    assert growth(before, figures(adapter)) == {
        "batch_size_requests_count": 2,  # the one that held the worker, and the others
        "batch_size_requests_sum": 1 + QUEUE,
        "batch_size_instances_sum": 1 + QUEUE,
        "requests_rejected_total": REFUSED,
    }


def test_one_bad_request_of_a_batch_fails_alone(adapter: Adapter, tmp_path: Path) -> None:
    before = figures(adapter)
    with Held(adapter, tmp_path) as held:
        bad = send(adapter, '{"instances": [{"data": "raise"}]}')
        asked = held.ask(*["four"] * (QUEUE - 1 + REFUSED))
        held.wait_refused(REFUSED)
    statuses = sorted(one.result().status for one in asked)
    with bad:
        status, _, error = bad.answer()

    assert (status, error["error"], error["component"]) == (500, "ValueError : cannot read this text", "model")
    assert statuses == [200] * (QUEUE - 1) + [429] * REFUSED
    assert growth(before, figures(adapter)) == {
        "batch_size_requests_count": 2,
        "batch_size_requests_sum": 1 + QUEUE,
        "batch_size_instances_sum": 1 + QUEUE,
        "batches_retried_total": 1,
        "requests_rejected_total": REFUSED,
    }


def test_requests_whose_clients_hung_up_never_reach_the_model(adapter: Adapter, tmp_path: Path) -> None:
    before = figures(adapter)
    gone = 3
    with Held(adapter, tmp_path) as held:
        doomed = [send(adapter, '{"instances": [{"data": "raise"}]}') for _ in range(gone)]
        asked = held.ask(*["four"] * (QUEUE - gone + REFUSED))
        held.wait_refused(REFUSED)
        for client in doomed:
            client.connection.close()
        for _ in range(2):  # what the adapter hears after it has heard that they are gone
            adapter.get("/")
    statuses = sorted(one.result().status for one in asked)

    assert statuses == [200] * (QUEUE - gone) + [429] * REFUSED
    assert growth(before, figures(adapter)) == {
        "batch_size_requests_count": 2,
        "batch_size_requests_sum": 1 + QUEUE - gone,
        "batch_size_instances_sum": 1 + QUEUE - gone,
        "requests_rejected_total": REFUSED,
        "requests_abandoned_total": gone,
    }


def send(adapter: Adapter, body: str) -> Visitor:
    """A request whose answer is not read here; returns when the adapter has it."""
    client = Visitor(socket.create_connection(("127.0.0.1", adapter.port)))
    head = f"POST /v1/models/lengths:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    client.send((head + body).encode())
    for _ in range(2):
        adapter.get("/")
    return client


def test_torchserve_is_told_to_wait_for_nothing(adapter: Adapter) -> None:
    effective = (adapter.folder / "work" / "config.properties").read_text()

    assert r'"batchSize"\: 1,' in effective
    assert "model lengths, version 1.0: requests that wait go to the model together, up to 16 instances" in adapter.log
