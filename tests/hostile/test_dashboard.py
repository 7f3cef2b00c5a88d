"""What anybody who reaches the dashboard can send it: it stays within the memory that its manifest gives it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from isvc_operator.api.core_shapes import quantity
from tests.hostile.health import healthy
from tests.support.limits import memory_limit
from tests.support.ports import free_port
from tests.support.runtimes import ROOT
from tests.support.waiting import eventually

MANIFEST = ROOT / "manifests/dashboard/dashboard.yaml"
# With logs whose lines are long and have no end, for somebody whose token is valid.
PROGRAM = """
import asyncio, sys
from isvc.dashboard.server import shared_dashboard
from tests.support.fake_services import FakeServices
from tests.unit.dashboard.test_connections import EndlessLog
from tests.unit.dashboard.test_sign_in import ANN, FakePeople, FakePerson

async def main(port):
    source = EndlessLog(FakeServices().ready())
    people = FakePeople({ANN: FakePerson("ann", source, {"models"})})
    origins = [f"http://127.0.0.1:{port}"]
    async with shared_dashboard(source, people, port=port, origins=origins, where="a cluster"):
        await asyncio.Event().wait()

asyncio.run(main(int(sys.argv[1])))
"""
MIB = 1 << 20
CLIENTS, BODIES = 40, 600
LOG = "/services/models/torchserve/log?pod=torchserve-predictor-7c9d8b6f5-x2x7q&container=kserve-container"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    (deployment,) = (one for one in yaml.safe_load_all(MANIFEST.read_text()) if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    here, log = free_port(), Path(tmp_path_factory.mktemp("dashboard")) / "log"
    with memory_limit(int(quantity(container["resources"]["limits"]["memory"]) or 0)) as limit, log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(here)], cwd=ROOT, stdout=file, stderr=file, preexec_fn=limit
        )
        try:
            eventually(lambda: is_served(here), "it is served", 60, log.read_text)
            yield here
            assert process.poll() is None, "it was killed"
        finally:
            process.kill()
            process.wait()


def is_served(port: int) -> bool:
    with contextlib.suppress(OSError), connect(port) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return connection.recv(100).startswith(b"HTTP/1.1 200")
    return False


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def head(port: int, path: str, size: int, *fields: str) -> bytes:
    here = f"127.0.0.1:{port}"
    lines = (f"POST {path} HTTP/1.1", f"Host: {here}", f"Origin: http://{here}", f"Content-Length: {size}", *fields)
    return "\r\n".join([*lines, "Content-Type: application/x-www-form-urlencoded", "", ""]).encode()


def post_all(port: int, path: str, size: int, *fields: str) -> None:
    """From many clients at a time, each as much as is taken."""

    def post() -> None:
        with connect(port) as connection, contextlib.suppress(OSError):
            connection.sendall(head(port, path, size, *fields) + b"body=" + b"x" * (size - 5))
            connection.recv(100)

    clients = [threading.Thread(target=post) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()


def test_large_forms_of_strangers(port: int) -> None:
    with healthy(port, "/healthz"):
        post_all(port, "/sign-in", 16 * MIB)


def test_unfinished_forms_of_strangers(port: int) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(BODIES):
            with contextlib.suppress(OSError):  # refused
                held.enter_context(connect(port)).sendall(head(port, "/sign-in", 16_000) + b"x" * 15_000)
    eventually(lambda: is_served(port), "it is served again")


def test_large_requests_of_somebody_who_has_signed_in(port: int) -> None:
    with healthy(port, "/healthz"):
        post_all(port, "/services/models/torchserve/request", 16 * MIB, "Authorization: Bearer ann.token-1")


def test_logs_that_nobody_reads(port: int) -> None:
    request = f"GET {LOG} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer ann.token-1\r\n\r\n".encode()
    with contextlib.ExitStack() as held, healthy(port, "/healthz"):
        streams = [held.enter_context(connect(port)) for _ in range(32)]
        for stream in streams:
            stream.sendall(request)
        assert {stream.recv(12) for stream in streams} == {b"HTTP/1.1 200"}
        assert all(is_served(port) for _ in range(200))
