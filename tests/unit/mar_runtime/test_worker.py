"""A worker's loops over a real connection, with a scripted handler: one batch after the other, and a running batch."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import orjson
from ts.context import Context

from mar_runtime.worker.handler import Handler
from mar_runtime.worker.main import run_batches, run_steps
from torchserve_compat import frames
from torchserve_compat.frames import HandlerBatch, HandlerRequest, RequestPart
from torchserve_compat.wire import Kind, Unframer, framed
from torchserve_compat.worker.calls import HandlerCalls

MANIFEST = {"model": {"modelName": "m", "modelVersion": "1.0"}}


class Scripted(Handler):
    """A handler that is a function; nothing is loaded."""

    def __init__(self, handle: Any) -> None:
        self._calls = HandlerCalls(handle, "none")
        self._context = Context("m", "/models/m", MANIFEST, 4, None, "0.12.0")


class Server:
    """The other end of a worker's connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = Unframer()
        self._frames: list[tuple[int, int, bytes]] = []

    def ask(self, number: int, id: str = "a", **body: Any) -> None:  # noqa: A002
        batch = HandlerBatch(
            "raw", [HandlerRequest(id, (), [RequestPart("body", "application/json", orjson.dumps(body))])]
        )
        self._connection.sendall(framed(frames.encode(batch), Kind.WHOLE, number))

    def leave(self, number: int) -> None:
        self._connection.sendall(framed(b"", Kind.LEAVE, number))

    def next(self) -> tuple[int, str, bytes]:
        """Number, kind and body of what the worker says next."""
        while not self._frames:
            data = self._connection.recv(1 << 16)
            assert data, "the worker has closed the connection"
            self._frames += self._received.feed(data)
        kind, number, frame = self._frames.pop(0)
        if kind == Kind.PIECE:
            return number, "piece", frames.decode_piece(frame).response.body
        result = frames.decode_result(frame)
        return number, "result", result.responses[0].body if result.responses else b""


@contextmanager
def worker(loop: Any, handle: Any) -> Iterator[Server]:
    """Runs the loop in a thread; it ends with the connection."""
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    thread = threading.Thread(target=loop, args=(cast(Handler, Scripted(handle)), theirs))
    thread.start()
    with theirs:
        try:
            with ours:
                yield Server(ours)
        finally:
            thread.join(20)
    assert not thread.is_alive()


class Gate:
    """A continuous handler that does one step for each `open`; a row's answer is who is in the batch."""

    def __init__(self) -> None:
        self._open = threading.Semaphore(0)
        self.reached = threading.Semaphore(0)
        self._left: dict[str, int] = {}

    def __call__(self, rows: list[Any], context: Any) -> list[str]:
        self.reached.release()
        assert self._open.acquire(timeout=20)
        ids = list(context.request_ids.values())
        for name, row in zip(ids, rows, strict=True):
            self._left[name] = (row["body"]["words"] if row else self._left[name]) - 1
        context.stopping_criteria = [lambda _, left=self._left[name]: left == 0 for name in ids]
        return ["+".join(name.partition("#")[0] for name in ids)] * len(ids)

    def wait(self) -> None:
        assert self.reached.acquire(timeout=20)

    def open(self) -> None:
        self._open.release()


def test_batches_are_answered_in_turn_by_their_numbers() -> None:
    with worker(run_batches, lambda rows, _: [row["body"]["text"] for row in rows]) as server:
        server.ask(7, text="seven")
        server.ask(8, text="eight")

        assert [server.next(), server.next()] == [(7, "result", b"seven"), (8, "result", b"eight")]


def test_a_request_joins_the_running_batch_at_its_next_step_and_leaves_it_at_its_end() -> None:
    gate = Gate()
    with worker(run_steps, gate) as server:
        server.ask(1, "a", words=3)
        gate.wait()
        server.ask(2, "b", words=1)
        gate.open()
        assert server.next() == (1, "piece", b"a")
        gate.wait()
        gate.open()
        assert [server.next(), server.next()] == [(1, "piece", b"a+b"), (2, "result", b"a+b")]
        gate.wait()
        gate.open()
        assert server.next() == (1, "result", b"a")


def test_a_request_that_is_cancelled_is_not_in_the_next_step() -> None:
    gate = Gate()
    with worker(run_steps, gate) as server:
        server.ask(1, "a", words=9)
        gate.wait()
        server.ask(2, "b", words=9)
        server.leave(1)
        gate.open()
        assert server.next() == (1, "piece", b"a")
        gate.wait()
        gate.open()
        assert server.next() == (2, "piece", b"b")
        gate.wait()
        server.leave(2)
        gate.open()
        assert server.next() == (2, "piece", b"b")


def test_a_large_request_joins_whole() -> None:
    text = "x" * 3_000_000
    with worker(run_steps, lambda rows, _: [str(len(row["body"]["text"])) for row in rows]) as server:
        server.ask(1, text=text)

        assert server.next() == (1, "result", b"3000000")
