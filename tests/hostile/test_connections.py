"""Clients that hold connections, short file descriptors, and killed processes: the others are served all the while."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
from collections.abc import Iterator

import psutil
import pytest

from data_plane.model_server.files import connections_within
from tests.hostile.health import healthy
from tests.integration.mar_runtime.serving import model_dir, told
from tests.support.raw_client import Visitor
from tests.support.runtimes import OURS, Runtime

FILES = 300  # of the server's process
CONNECTIONS = connections_within(FILES, 10_000)
GET = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
BODY = b'{"instances":[{"do":"tell"}]}'
HEAD = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


LOSS = {"mar": "model m: worker", "adapter": "model m lost its worker"}  # what the log says of its end
OWN_WORKERS = pytest.mark.parametrize("runtime", ["mar"], indirect=True, scope="module")  # TorchServe has Java's


@pytest.fixture(scope="module", params=OURS)
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = model_dir(tmp_path_factory.mktemp("connections"), {"m": {}})
    with Runtime(request.param, folder, has_torch=False) as running:
        resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))  # long before it serves
        yield running.wait_ready(["m"])


def visit(runtime: Runtime, *segments: bytes) -> Visitor:
    return Visitor(socket.create_connection(("127.0.0.1", runtime.port), timeout=20)).send(*segments)


@pytest.mark.parametrize("sent", [b"", b"POST /v1/mod", HEAD % 1000 + b"{"], ids=["nothing", "half-heads", "bodies"])
def test_connections_that_are_held_keep_nobody_out_for_long(runtime: Runtime, sent: bytes) -> None:
    """Nor do they take the files that a worker needs."""
    worker = told(runtime, "m")
    noticed = runtime.log.count(LOSS[runtime.kind])
    with contextlib.ExitStack() as held:
        for _ in range(CONNECTIONS + 50):
            held.enter_context(visit(runtime, sent))
        with healthy(runtime.port):
            os.kill(worker, signal.SIGKILL)
            runtime.wait_until(lambda: runtime.log.count(LOSS[runtime.kind]) > noticed, "its end is noticed")
            runtime.wait_until(lambda: runtime.get("/v1/models/m").status == 200, "there is another")
            with visit(runtime, HEAD % len(BODY) + BODY) as asked:
                status, headers, _ = asked.answer()
    if sent:
        assert (status, headers.get("retry-after"), headers.get("connection")) == (503, "1", "close")
    else:
        assert status == 200
    assert told(runtime, "m") != worker


@OWN_WORKERS
def test_a_worker_that_dies_while_files_are_short_is_replaced_when_there_are_some(runtime: Runtime) -> None:
    worker = told(runtime, "m")
    server = psutil.Process(runtime.process.pid)
    with visit(runtime, GET) as probe:
        assert probe.answer()[0] == 200
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (server.num_fds() - 2, FILES))
        os.kill(worker, signal.SIGKILL)
        runtime.wait_until(lambda: "No process could be started for a worker" in runtime.log, "files are short")
        assert probe.send(GET).answer()[0] == 200
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (FILES, FILES))

    assert told(runtime, "m") != worker


@OWN_WORKERS
def test_a_killed_forkserver_costs_no_request_and_is_started_anew(runtime: Runtime) -> None:
    worker = told(runtime, "m")
    with healthy(runtime.port):
        (forkserver,) = (one for one in runtime.children() if is_forkserver(one))
        forkserver.kill()
        runtime.wait_until(lambda: f"worker {worker} goes on" in runtime.log, "it is noticed")
        assert {told(runtime, "m") for _ in range(5)} == {worker}

        os.kill(worker, signal.SIGKILL)
        runtime.wait_until(lambda: f"worker {worker} is gone" in runtime.log, "it is noticed")
        assert told(runtime, "m") != worker


def is_forkserver(process: psutil.Process) -> bool:
    """Workers are forked from it, and have its command line."""
    return any(process.cmdline() == child.cmdline() for child in process.children())


def test_a_client_that_wants_half_an_answer_and_hangs_up_leaves_nothing(runtime: Runtime) -> None:
    server = psutil.Process(runtime.process.pid)
    before = server.num_fds()
    for _ in range(100):
        with visit(runtime, HEAD % len(BODY) + BODY[:-1]):
            pass
        with visit(runtime, HEAD % len(BODY) + BODY):
            pass

    runtime.wait_until(lambda: server.num_fds() <= before, "all connections are closed")
