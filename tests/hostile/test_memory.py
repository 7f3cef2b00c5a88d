"""Bodies and messages that take memory: there is a bound for all of them together, and what they took comes back."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import grpc
import numpy as np
import psutil
import pytest

from data_plane.protocol.v2 import open_inference_pb2 as pb
from tests.hostile.health import healthy
from tests.integration.mar_runtime.serving import model_dir, told
from tests.support.http2_frames import REFERENCE, RST_STREAM, GrpcVisitor, indexed
from tests.support.raw_client import Visitor
from tests.support.runtimes import OURS, Request, Runtime
from tests.support.waiting import eventually

MIB = 1024 * 1024
SIZE = 6 * MIB  # of a body, below the limit for one
BUDGET = 24 * MIB
CLIENTS = 40
OTHERWISE = 60 * MIB  # what else a server may take: buffers of sockets, connections, the answers
LENGTH = "inference-header-content-length"
INFER = "/inference.GRPCInferenceService/ModelInfer"


@pytest.fixture(scope="module", params=OURS)
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = model_dir(tmp_path_factory.mktemp("memory"), {"m": {}})
    with Runtime(request.param, folder, "--max-buffered-bytes", str(BUDGET), has_torch=False) as running:
        running.wait_ready(["m"])
        told(running, "m")
        yield running


def resident(runtime: Runtime) -> int:
    """Bytes of the server's own process."""
    return int(psutil.Process(runtime.process.pid).memory_info().rss)


def connect(runtime: Runtime) -> Visitor:
    return Visitor(socket.create_connection(("127.0.0.1", runtime.port), timeout=20))


def visit(runtime: Runtime, model: str, body: bytes) -> Visitor:
    head = b"POST /v1/models/%b:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (model.encode(), SIZE)
    return connect(runtime).send(head, body)


def test_bodies_for_an_unknown_model_are_not_kept(runtime: Runtime) -> None:
    before = resident(runtime)
    with contextlib.ExitStack() as clients, healthy(runtime.port):
        sent = [clients.enter_context(visit(runtime, "unknown", bytes(SIZE - 1))) for _ in range(CLIENTS)]
        statuses = {client.answer()[0] for client in sent}
        grown = resident(runtime) - before

    assert statuses == {404}
    assert grown < OTHERWISE


def test_unfinished_bodies_are_bounded_together(runtime: Runtime) -> None:
    before = resident(runtime)
    with contextlib.ExitStack() as clients, healthy(runtime.port):
        sent = [clients.enter_context(visit(runtime, "m", bytes(SIZE - 1))) for _ in range(CLIENTS)]
        refused = [client.answer()[:2] for client in sent[BUDGET // SIZE + 1 :]]
        grown = resident(runtime) - before

    assert {(status, headers["retry-after"]) for status, headers in refused} == {(503, "1")}
    assert grown < BUDGET + OTHERWISE
    assert told(runtime, "m")


def test_unfinished_heads_are_bounded_together(runtime: Runtime) -> None:
    before = resident(runtime)
    head = b"POST /v1/models/m:predict HTTP/1.1\r\nX: " + b"a" * 60_000
    with contextlib.ExitStack() as clients, healthy(runtime.port):
        sent = [clients.enter_context(connect(runtime).send(head)) for _ in range(BUDGET // len(head) + 20)]
        refused = [client.answer()[:2] for client in sent[-10:]]
        grown = resident(runtime) - before

    assert {(status, headers["retry-after"]) for status, headers in refused} == {(503, "1")}
    assert grown < BUDGET + OTHERWISE
    assert told(runtime, "m")


def test_heads_of_many_fields_are_refused(runtime: Runtime) -> None:
    """Each field takes memory beside its bytes."""
    before = resident(runtime)
    head = b"POST /v1/models/m:predict HTTP/1.1\r\n" + b"".join(b"a%d:\r\n" % number for number in range(7000))
    with contextlib.ExitStack() as clients, healthy(runtime.port):
        sent = [clients.enter_context(connect(runtime).send(head)) for _ in range(200)]
        refused = {client.answer()[0] for client in sent}
        grown = resident(runtime) - before

    assert refused == {431}
    assert grown < OTHERWISE
    assert told(runtime, "m")


def test_references_to_one_field_over_grpc_are_bounded(runtime: Runtime) -> None:
    """12,000 bytes of a frame stand for 47 MB of metadata."""
    before = resident(runtime)
    with contextlib.ExitStack() as clients, healthy(runtime.port):
        visitors = [clients.enter_context(GrpcVisitor(runtime.grpc_port, acknowledges=True)) for _ in range(4)]
        for visitor in visitors:
            visitor.call(INFER.encode(), indexed(b"x", b"v" * 3900))
        for _ in range(100):
            for visitor in visitors:
                visitor.call(INFER.encode(), REFERENCE * 12_000)
        for visitor in visitors:
            ended = (stream for kind, stream, _ in visitor.frames() if kind == RST_STREAM)
            assert {next(ended) for _ in range(100)} == set(range(3, 203, 2))
        grown = resident(runtime) - before

    assert grown < OTHERWISE
    assert told(runtime, "m")


def test_rows_that_nothing_is_sent_for_are_not_made(runtime: Runtime) -> None:
    """A list for each of them ended a worker, and five requests the server."""
    tensor = b'{"name":"x","datatype":"FP32","shape":[1000000000,0],%b}'
    bodies = (tensor % b'"data":[]', tensor % b'"parameters":{"binary_data_size":0}')
    workers = runtime.children()
    before = sum(process.memory_info().rss for process in workers)
    with healthy(runtime.port):
        answers = [
            runtime.send(Request("POST", path, b'{"inputs":[%b]}' % one, ((LENGTH, str(len(one) + 13)),)))
            for one in bodies
            for path in ("/v2/models/m/infer", "/v2/models/m/infer", "/v2/models/m/versions/1.0/infer")
        ]

    assert {answer.status for answer in answers} == {400}
    assert "1000000001 nested lists for 0 elements; 1024 are served" in answers[0].document["error"]
    assert runtime.children() == workers
    assert sum(process.memory_info().rss for process in workers) < before + OTHERWISE
    assert told(runtime, "m")


def test_messages_over_grpc_are_bounded_together(runtime: Runtime) -> None:
    before = resident(runtime)
    with healthy(runtime.port):
        codes, grown = asyncio.run(stalled_messages(runtime, before))

    assert set(codes) <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL}
    assert grown < 2 * BUDGET + 16 * SIZE + OTHERWISE
    eventually(lambda: resident(runtime) < before + OTHERWISE, "the memory is given back")
    assert told(runtime, "m")


async def stalled_messages(runtime: Runtime, before: int) -> tuple[list[grpc.StatusCode], int]:
    """What becomes of many large messages at a time, and how much the server grows by them."""
    tensor = {"name": "x", "datatype": "FP32", "shape": [SIZE // 8]}
    content = np.ones(SIZE // 8, np.float32).tobytes()
    message = pb.ModelInferRequest(model_name="m", inputs=[tensor], raw_input_contents=[content]).SerializeToString()
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with contextlib.AsyncExitStack() as channels:
        calls = []
        for _ in range(CLIENTS):
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{runtime.grpc_port}", options)
            calls.append((await channels.enter_async_context(channel)).unary_unary(INFER)(message, timeout=60))
        codes = [asyncio.ensure_future(call.code()) for call in calls]
        grown = 0
        while not all(code.done() for code in codes):
            grown = max(grown, resident(runtime) - before)
            await asyncio.wait(codes, timeout=0.05)
        return [code.result() for code in codes], grown
