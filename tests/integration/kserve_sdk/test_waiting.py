"""A transformer's process that waits for its predictor, as in a pod: it opens no port before."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.runtimes import ROOT
from tests.support.waiting import eventually

PROGRAM = ROOT / "examples/mnist_transformer/transformer.py"


class Waiting:
    """The process, and the predictor's port, which refuses connections until the test listens."""

    def __init__(self, folder: Path, predictor: socket.socket, *flags: str) -> None:
        self.predictor = predictor
        self.host = f"127.0.0.1:{predictor.getsockname()[1]}"
        self.port = free_port()
        self._log = folder / "log"
        command = [sys.executable, str(PROGRAM), f"--predictor_host={self.host}", f"--http_port={self.port}",
                   "--enable_grpc=false", *flags]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "WAIT_FOR_PREDICTOR": "true"}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def waits(self) -> bool:
        assert self.process.poll() is None, self.log
        return f"http://{self.host} cannot be reached: Connection refused" in self.log

    def status(self) -> int | None:
        """Of its readiness; None where it takes no connection."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            try:
                connection.request("GET", "/v2/health/ready")
            except OSError:
                return None
            return connection.getresponse().status


@pytest.fixture(params=["1", "2"], ids=["one process", "two workers"])
def waiting(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Waiting]:
    with socket.socket() as predictor:
        predictor.bind(("127.0.0.1", 0))
        started = Waiting(tmp_path, predictor, f"--workers={request.param}")
        try:
            eventually(started.waits, "it says for whom it waits", 60, lambda: started.log)
            yield started
        finally:
            started.process.kill()
            started.process.wait()


def test_no_port_is_open_before_the_predictor_takes_connections_and_it_is_ready_after(waiting: Waiting) -> None:
    assert waiting.status() is None

    waiting.predictor.listen()
    eventually(lambda: waiting.status() == 200, "it is ready", 60, lambda: waiting.log)

    waiting.predictor.close()
    assert waiting.status() == 200, "it waits once only"


def test_a_signal_ends_it_while_it_waits(waiting: Waiting) -> None:
    waiting.process.send_signal(signal.SIGTERM)

    assert waiting.process.wait(timeout=60) == 0
