"""The server of transformers has the bounds of the runtimes, by flags of its own."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.health import healthy
from tests.support.ports import free_port
from tests.support.raw_client import Visitor
from tests.support.runtimes import ROOT
from tests.support.waiting import eventually

PROGRAM = """
from transformer_sdk.kserve import Model, ModelServer

class Size(Model):
    ready = True

    async def predict(self, payload, headers):
        return {"predictions": [len(payload["instances"][0])]}

ModelServer().start([Size("m")])
"""
CONNECTIONS = 20
BUDGET = 3_000_000
BODY = b'{"instances":["%b"]}' % (b"x" * 1_000_000)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    here, log = free_port(), Path(tmp_path_factory.mktemp("sdk")) / "log"
    flags = (f"--http_port={here}", "--enable_grpc=false")
    bounds = (f"--max_connections={CONNECTIONS}", f"--max_buffered_bytes={BUDGET}")
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, *flags, *bounds], cwd=ROOT, stdout=file, stderr=file)
    try:
        eventually(lambda: is_ready(here), "it serves", 60, log.read_text)
        yield here
    finally:
        process.kill()
        process.wait()


def is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == 200
    return False


def visit(port: int, *segments: bytes) -> Visitor:
    return Visitor(socket.create_connection(("127.0.0.1", port), timeout=20)).send(*segments)


def post(model: str = "m", body: bytes = BODY) -> bytes:
    return b"POST /v1/models/%b:predict HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (model.encode(), len(BODY), body)


def test_connections_are_limited_and_probes_answered(port: int) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(CONNECTIONS):
            held.enter_context(visit(port, b"POST /v1/mod"))
        # From now on: a probe that came before the last of them would have its place, and leave it to the next one.
        with healthy(port), visit(port, post()) as refused:
            status, headers, _ = refused.answer()

    assert (status, headers.get("retry-after"), headers.get("connection")) == (503, "1", "close")


def test_bodies_are_bounded_together_and_unknown_models_refused_before(port: int) -> None:
    with contextlib.ExitStack() as clients, healthy(port):
        unknown = clients.enter_context(visit(port, post("x", BODY[:-1])))
        assert unknown.answer()[0] == 404
        unfinished = [clients.enter_context(visit(port, post(body=BODY[:-1]))) for _ in range(2)]
        with visit(port) as refused:
            eventually(lambda: refused.send(post()).answer()[0] == 503, "the server has read both")

        assert [visitor.send(BODY[-1:]).echoed() for visitor in unfinished] == [{"predictions": [1_000_000]}] * 2
    with visit(port, post()) as later:
        assert later.echoed() == {"predictions": [1_000_000]}
