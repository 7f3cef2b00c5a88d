"""Clients of answers in pieces who do not read them, or hang up: their places in the running batch are others'."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator

import psutil
import pytest

from data_plane.limits import MAX_STREAM_BUFFER
from tests.conformance.test_streaming import BATCH_SIZE, FOREVER, Stream, ask, model_dir
from tests.hostile.health import healthy
from tests.support.runtimes import OURS, Runtime
from tests.support.waiting import eventually

CLIENTS = 3 * BATCH_SIZE
SIZE = 20_000  # times a word, so that a step is megabytes a second
# What may wait for the clients at a time, in the server and on its sockets, and what Python keeps of what it had.
GROWTH = 4 * CLIENTS * MAX_STREAM_BUFFER + 100 * 1024 * 1024


@pytest.fixture(scope="module", params=OURS)
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with Runtime(request.param, model_dir(tmp_path_factory.mktemp("streams")), has_torch=False) as running:
        yield running.wait_ready(["continuous"])


def asking(runtime: Runtime, **document: object) -> socket.socket:
    """A client that has asked, and does nothing more."""
    body = json.dumps(document).encode()
    client = socket.create_connection(("127.0.0.1", runtime.port), timeout=20)
    client.sendall(
        b"POST /predictions/continuous HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    )
    return client


def test_clients_who_do_not_read_lose_their_places(runtime: Runtime) -> None:
    server = psutil.Process(runtime.process.pid)
    before = server.memory_info().rss
    with contextlib.ExitStack() as held, healthy(runtime.port):
        for _ in range(CLIENTS):
            held.enter_context(asking(runtime, words=FOREVER, size=SIZE))

        assert ask(runtime, "continuous", words=3) == "word 0 word 1 word 2 "
        assert server.memory_info().rss < before + GROWTH


def test_clients_who_hang_up_lose_their_places(runtime: Runtime) -> None:
    with healthy(runtime.port):
        for _ in range(10):
            for client in [asking(runtime, words=FOREVER) for _ in range(CLIENTS)]:
                client.close()

        eventually(lambda: ask(runtime, "continuous", words=2, tell="cached") == "1,1,", "it is alone in the batch")


def test_clients_who_hang_up_in_the_middle_of_a_word_leave_no_connection_behind(runtime: Runtime) -> None:
    server = psutil.Process(runtime.process.pid)
    ask(runtime, "continuous", words=2)  # what is kept is there
    before = server.num_fds()
    for _ in range(50):
        # Long words, but not so many bytes a second that a client loses its place before it has read ten of them.
        with Stream(runtime, "continuous", {"words": FOREVER, "size": SIZE // 20}) as stream:
            stream.read(10)

    eventually(lambda: server.num_fds() <= before, "all are gone")
