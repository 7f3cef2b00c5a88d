"""The example's transformer as a process."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.ports import free_port
from tests.support.runtimes import ROOT, wait_ended
from tests.support.waiting import eventually
from transformer_sdk.testing import FakePredictor

EXAMPLE = ROOT / "examples/mnist_transformer"
PREDICT = "/v1/models/mnist:predict"
SAMPLE = (EXAMPLE / "sample.json").read_bytes()


class Transformer:
    """The process."""

    def __init__(self, folder: Path, predictor: str, *flags: str, program: Path = EXAMPLE / "transformer.py") -> None:
        self.port = free_port()
        self.log = folder / "log"
        command = [sys.executable, str(program), "--model_name=mnist", "--enable_grpc=false"]
        command += [f"--predictor_host={predictor}", f"--http_port={self.port}", *flags]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
            )

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def wait_ready(self) -> None:
        eventually(self._is_ready, "the transformer is ready", 60, lambda: self.log.read_text())

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(OSError):
            return self.ask("GET", "/v1/models/mnist")[0] == 200
        return False


@contextlib.contextmanager
def transforming(
    folder: Path, predictor: str, *flags: str, program: Path = EXAMPLE / "transformer.py"
) -> Iterator[Transformer]:
    transformer = Transformer(folder, predictor, *flags, program=program)
    try:
        transformer.wait_ready()
        yield transformer
    finally:
        transformer.process.kill()
        transformer.process.wait()


def digits_of(instances: list[Any]) -> list[int]:
    return [7 if len(one["data"]) == 784 else 0 for one in instances]


@pytest.fixture
def fake() -> Iterator[FakePredictor]:
    with FakePredictor(digits_of) as predictor:
        yield predictor


def test_pictures_go_in_and_digits_come_out(fake: FakePredictor, tmp_path: Path) -> None:
    with transforming(tmp_path, fake.host) as transformer:
        assert transformer.ask("POST", PREDICT, SAMPLE) == (200, {"predictions": [{"digit": 7}]})
        status, document = transformer.ask("POST", PREDICT, b'{"instances": [{"image": 1}]}')

    assert status == 400
    assert document["error"].startswith('an instance is {"image": {"b64": "a picture in base64"}}')


def test_requests_under_way_are_answered_before_the_process_ends(tmp_path: Path) -> None:
    release = threading.Event()

    def slow(instances: list[Any]) -> list[int]:
        assert release.wait(60)
        return [7 for _ in instances]

    with FakePredictor(slow) as behind, transforming(tmp_path, behind.host) as transformer:
        with ThreadPoolExecutor(1) as client:
            answer = client.submit(transformer.ask, "POST", PREDICT, SAMPLE)
            eventually(lambda: behind.requests, "the predictor is asked")
            transformer.process.send_signal(signal.SIGTERM)
            eventually(lambda: "draining" in transformer.log.read_text(), "the transformer drains")
            release.set()
        code = transformer.process.wait(timeout=60)

    assert (answer.result(), code) == ((200, {"predictions": [{"digit": 7}]}), 0)


def test_the_log_says_where_it_serves_and_that_it_drains(fake: FakePredictor, tmp_path: Path) -> None:
    with transforming(tmp_path, fake.host) as transformer:
        transformer.process.send_signal(signal.SIGTERM)
        transformer.process.wait(timeout=60)

    lines = re.findall(r"^\S+ \S+ \d+ (\S+ [A-Z]+) \[.*?\] (.*)$", transformer.log.read_text(), re.MULTILINE)
    assert (lines, len(transformer.log.read_text().splitlines())) == (
        [
            ("data_plane.model_server.life INFO", f"serving at http://localhost:{transformer.port}"),
            ("data_plane.model_server.life INFO", "draining: requests under way have 30 s to finish"),
        ],
        2,
    )


def test_workers_share_the_port_and_end_together(fake: FakePredictor, tmp_path: Path) -> None:
    with transforming(tmp_path, fake.host, "--workers=2") as transformer:
        answers = [transformer.ask("POST", PREDICT, SAMPLE)[0] for _ in range(10)]
        transformer.process.send_signal(signal.SIGTERM)
        code = transformer.process.wait(timeout=60)

    assert (answers, code) == ([200] * 10, 0)


def test_workers_do_not_outlive_a_parent_that_is_killed(fake: FakePredictor, tmp_path: Path) -> None:
    with transforming(tmp_path, fake.host, "--workers=2") as transformer:
        workers = psutil.Process(transformer.process.pid).children()
        transformer.process.kill()

        assert len(workers) == 2
        wait_ended(workers)


HOLDING = """
import time
from transformer_sdk.kserve import ModelServer
from examples.mnist_transformer.transformer import DigitTransformer

class Holding(DigitTransformer):
    async def preprocess(self, payload, headers=None):
        time.sleep(3)
        return super().preprocess(payload)

ModelServer().start([Holding("mnist")])
"""


def test_an_async_hook_that_holds_the_event_loop_is_in_the_log(fake: FakePredictor, tmp_path: Path) -> None:
    program = tmp_path / "holding.py"
    program.write_text(HOLDING)
    with transforming(tmp_path, fake.host, program=program) as transformer:
        transformer.ask("POST", PREDICT, SAMPLE)

        assert f"the event loop is held at {program}:8 (preprocess); if an async hook" in transformer.log.read_text()
