"""Attacks on a server with the memory that the shipped runtimes have: it goes on, and gives back what they took."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from isvc_operator.api.core_shapes import quantity
from tests.hostile.fuzz.test_wire import PROGRAM
from tests.hostile.health import healthy
from tests.integration.mar_runtime.serving import model_dir
from tests.support.builders import the_shipped_runtime_body
from tests.support.http2_frames import REFERENCE, GrpcVisitor, indexed
from tests.support.limits import memory_limit
from tests.support.ports import free_port
from tests.support.raw_client import Visitor
from tests.support.runtimes import ROOT, Runtime
from tests.support.waiting import eventually

MIB = 1024 * 1024
CONNECTIONS = 3000
OTHERWISE = 160 * MIB  # what a server may keep of an attack: gRPC's for each connection and call
LIVE = b"/inference.GRPCInferenceService/ServerLive"
POST = b"POST /v1/models/m:predict HTTP/1.1\r\n"


@dataclass(frozen=True)
class Server:
    port: int
    grpc_port: int
    process: psutil.Process

    def resident(self) -> int:
        """Bytes of the server's own process."""
        return int(self.process.memory_info().rss)


def shipped_limit() -> int:
    (container,) = the_shipped_runtime_body()["spec"]["containers"]
    return int(quantity(container["resources"]["limits"]["memory"]) or 0)


@contextlib.contextmanager
def mar(folder: Path, limit: Callable[[], None], budget: str) -> Iterator[Server]:
    directory = model_dir(folder, {"m": {}})
    with Runtime("mar", directory, "--max-buffered-bytes", budget, has_torch=False, preexec_fn=limit) as running:
        running.wait_ready(["m"])
        yield Server(running.port, running.grpc_port, psutil.Process(running.process.pid))


@contextlib.contextmanager
def sdk(folder: Path, limit: Callable[[], None], budget: str) -> Iterator[Server]:
    port, grpc_port, log = free_port(), free_port(), folder / "log"
    flags = (f"--http_port={port}", f"--grpc_port={grpc_port}", f"--max_buffered_bytes={budget}")
    with log.open("wb") as file:
        command = [sys.executable, "-c", PROGRAM, *flags]
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file, preexec_fn=limit)
    try:
        eventually(lambda: is_live(port), "it serves", 60, log.read_text)
        yield Server(port, grpc_port, psutil.Process(process.pid))
    finally:
        process.kill()
        process.wait()


def is_live(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/v2/health/live")
        return connection.getresponse().status == 200
    return False


@pytest.fixture(scope="module", params=[mar, sdk])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    size = shipped_limit()
    with (
        memory_limit(size) as limit,
        request.param(tmp_path_factory.mktemp("limited"), limit, str(size // 4)) as running,
    ):
        yield running
        assert running.process.is_running(), "it was killed"


def unfinished_heads(server: Server, clients: contextlib.ExitStack) -> None:
    """Of as many fields and bytes as a head may have."""
    head = POST + b"".join(b"a%d:%s\r\n" % (number, b"x" * 490) for number in range(128))
    for _ in range(CONNECTIONS):
        send(server, clients, head)


def heads_of_many_fields(server: Server, clients: contextlib.ExitStack) -> None:
    head = POST + b"".join(b"a%d:\r\n" % number for number in range(7000))
    for _ in range(CONNECTIONS):
        send(server, clients, head)


def send(server: Server, clients: contextlib.ExitStack, head: bytes) -> None:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    with contextlib.suppress(OSError):  # it is refused before it is sent
        clients.enter_context(Visitor(connection)).send(head)


def references(server: Server, clients: contextlib.ExitStack) -> None:
    """12,000 bytes of a frame stand for 47 MB of metadata."""
    for _ in range(4):
        visitor = clients.enter_context(GrpcVisitor(server.grpc_port, acknowledges=True))
        visitor.call(LIVE, indexed(b"x", b"v" * 3900))
        for _ in range(300):
            visitor.call(LIVE, REFERENCE * 12_000)


def unacknowledged_fields(server: Server, clients: contextlib.ExitStack) -> None:
    """gRPC itself takes 16 MiB of metadata from a client that acknowledges no settings: of a byte for each field."""
    for _ in range(4):
        visitor = clients.enter_context(GrpcVisitor(server.grpc_port, acknowledges=False))
        visitor.call(LIVE, indexed(b"x", b"v"))
        for _ in range(30):
            visitor.call(LIVE, REFERENCE * 490_000)


def unacknowledged_references(server: Server, clients: contextlib.ExitStack) -> None:
    """As much metadata by fewer fields."""
    for _ in range(4):
        visitor = clients.enter_context(GrpcVisitor(server.grpc_port, acknowledges=False))
        visitor.call(LIVE, indexed(b"x", b"v" * 3900))
        for _ in range(120):
            visitor.call(LIVE, REFERENCE * 4_200)


def calls_without_messages(server: Server, clients: contextlib.ExitStack) -> None:
    """Each with nearly as much metadata as a call may have."""
    for _ in range(100):
        visitor = clients.enter_context(GrpcVisitor(server.grpc_port, acknowledges=True))
        visitor.call(LIVE, indexed(b"x", b"v" * 3900))
        for _ in range(127):
            visitor.call(LIVE, REFERENCE * 3)


@pytest.mark.parametrize(
    "attack",
    [
        unfinished_heads,
        heads_of_many_fields,
        references,
        unacknowledged_fields,
        unacknowledged_references,
        calls_without_messages,
    ],
)
def test_a_server_outlives(attack: Callable[[Server, contextlib.ExitStack], None], server: Server) -> None:
    before = server.resident()
    with contextlib.ExitStack() as clients, healthy(server.port):
        attack(server, clients)

    eventually(lambda: server.resident() < before + OTHERWISE, "the memory is given back", 120)
