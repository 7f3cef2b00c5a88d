"""A transformer's server of two processes with a payload logger, and a sink with HTTPS."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from data_plane.payload_logger.settings import VARIABLE
from tests.support.event_sinks import Sink, sinking
from tests.support.object_stores import tls
from tests.support.ports import free_port
from tests.support.runtimes import ROOT
from tests.support.waiting import eventually

PROGRAM = """
import os
from transformer_sdk.kserve import Model, ModelServer

class Process(Model):
    ready = True

    def predict(self, payload, headers=None):
        return {"predictions": [os.getpid()]}

ModelServer().start([Process("m")])
"""
REQUESTS = 60
ASKED = b'{"instances":[1]}'


@dataclass
class Server:
    """The server, and what it has logged."""

    port: int
    log: Path

    def post(self, identity: str = "1") -> int:
        """Send a request on a connection of its own; return the process that has responded."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("POST", "/v1/models/m:predict", ASKED, {"x-request-id": identity})
            (process,) = json.loads(connection.getresponse().read())["predictions"]
        finally:
            connection.close()
        return int(process)

    def is_ready(self) -> bool:
        try:
            return bool(self.post())
        except OSError:
            return False


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tls.Certificate:
    return tls.issue(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def sink(certificate: tls.Certificate) -> Iterator[Sink]:
    with sinking(certificate) as running:
        yield running


@contextlib.contextmanager
def serving(folder: Path, **settings: object) -> Iterator[Server]:
    """A server; after the block it has ended by itself."""
    port, log = free_port(), folder / "log"
    flags = (f"--http_port={port}", "--enable_grpc=false", "--workers=2")
    environment = {**os.environ, VARIABLE: json.dumps({"component": "transformer", **settings})}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *flags], cwd=ROOT, stdout=file, stderr=file, env=environment
        )
    server = Server(port, log)
    try:
        eventually(server.is_ready, "it serves", 60, log.read_text)
        yield server
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def test_each_process_logs_its_own_requests(tmp_path: Path, sink: Sink, certificate: tls.Certificate) -> None:
    with serving(tmp_path, url=sink.url, caFile=str(certificate.authority)) as server:
        processes = {f"of-the-test-{number}": server.post(f"of-the-test-{number}") for number in range(REQUESTS)}

    expected = [("request", identity, ASKED) for identity in processes]
    expected += [("response", one, b'{"predictions":[%d]}' % process) for one, process in processes.items()]
    assert [one for one in sink.told() if one[1].startswith("of-the-test")] == sorted(expected)
    assert {one["component"] for one in sink.events} == {"transformer"}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "its last problem: its certificate is not trusted"),
        ({"caFile": "/no/such/file"}, "/no/such/file does not exist"),
        ({"tlsSkipVerify": True}, ""),
    ],
    ids=["unknown-authority", "no-file", "not-verified"],
)
def test_a_sink_that_is_not_trusted_gets_nothing(
    tmp_path: Path, sink: Sink, settings: dict[str, object], problem: str
) -> None:
    with serving(tmp_path, url=sink.url, **settings) as server:
        pass

    assert bool(sink.events) == (not problem)
    assert problem in server.log.read_text()
