"""What passes between clients and gRPC: all of it, at the pace of both; and how a client's connection ends."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import uvloop

from data_plane.limits import GRPC_COPIES, MAX_GRPC_STREAMS, MAX_UNACKNOWLEDGED_FRAMES
from data_plane.model import Call
from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from data_plane.server.budget import ByteBudget
from data_plane.server.certificate import Certificate, Tls
from data_plane.server.grpc import server as server_module
from data_plane.server.grpc.relay import Boundaries, Frames, GrpcRelay
from data_plane.server.run import listen
from tests.support.fake_models import FakeModel, serving
from tests.support.grpc_servers import grpc_port, grpc_server
from tests.support.http2_frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    GOAWAY,
    HEADERS,
    PREFACE,
    SETTINGS,
    WINDOW_UPDATE,
    call,
    frame,
    text,
)
from tests.support.object_stores import tls
from tests.support.ports import free_port

INFER = "/inference.GRPCInferenceService/ModelInfer"
LIVE = "/inference.GRPCInferenceService/ServerLive"
TENSOR = Tensor.from_numpy("x", np.array([1, 2], dtype=np.float32))
REQUEST = wire.request_to_proto(TensorRequest((TENSOR,), "42"), "m").SerializeToString()
MAX_CONCURRENT_STREAMS = 3  # a setting
OPENING, ACKNOWLEDGEMENT, PING = frame(SETTINGS, 0, 0, bytes(6)), frame(SETTINGS, ACK, 0), frame(6, 0, 0, bytes(8))
LARGE = 8_000_000  # bytes: more than all buffers on the way
OK = b"grpc-status" + text(b"0")

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a test in one of the loops of servers, for some seconds at most."""
    return lambda test: request.param(asyncio.wait_for(test, 120))


@contextlib.asynccontextmanager
async def connected(port: int, sent: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client that begins with all of this, and waits for nothing."""
    answers, client = await asyncio.open_connection("127.0.0.1", port)
    client.write(sent)
    try:
        yield answers, client
    finally:
        client.close()
        with contextlib.suppress(ConnectionResetError):
            await client.wait_closed()


@contextlib.asynccontextmanager
async def relaying(port: int) -> AsyncIterator[tuple[GrpcRelay, int]]:
    """A relay to this port, and its own port. uvloop's loop does not end while one listens."""
    listener = listen("127.0.0.1", 0)
    relay = GrpcRelay(listener, 1, None)
    await relay.start(port)
    try:
        yield relay, listener.getsockname()[1]
    finally:
        relay.close_port()


@pytest.mark.parametrize("size", [1, 7, 9, 1000])
@pytest.mark.parametrize(
    ("sent", "passed"),
    [
        ([OPENING, ACKNOWLEDGEMENT, PING], [OPENING, ACKNOWLEDGEMENT, PING]),
        ([OPENING, PING, PING, ACKNOWLEDGEMENT, PING], [OPENING, ACKNOWLEDGEMENT, PING, PING, PING]),
        ([OPENING, PING, PING], [OPENING, ACKNOWLEDGEMENT, PING, PING]),
        ([OPENING, PING, ACKNOWLEDGEMENT, ACKNOWLEDGEMENT], [OPENING, ACKNOWLEDGEMENT, PING, ACKNOWLEDGEMENT]),
        ([ACKNOWLEDGEMENT, PING, ACKNOWLEDGEMENT], [ACKNOWLEDGEMENT, PING, ACKNOWLEDGEMENT]),
    ],
    ids=["at-once", "late", "never", "of-later-settings", "too-early"],
)
def test_settings_are_acknowledged_before_all_that_follows_a_clients_own(
    sent: list[bytes], passed: list[bytes], size: int
) -> None:
    frames, whole = Frames(), PREFACE + b"".join(sent)
    pieces = [frames.pass_on(whole[start : start + size]) for start in range(0, len(whole), size)]

    assert b"".join(pieces) == PREFACE + b"".join(passed)


def test_a_client_that_waits_for_nothing_is_served(run: Run) -> None:
    async def test() -> None:
        sent = PREFACE + frame(SETTINGS, 0, 0) + call(1, LIVE.encode(), b"", b"")
        async with grpc_port(serving()) as port, connected(port, sent) as (answers, _):
            await answers.readuntil(OK)

    run(test())


def test_a_client_is_told_of_fewer_calls_than_grpc_takes(run: Run) -> None:
    async def test() -> None:
        async with grpc_port(serving()) as port, connected(port, b"") as (answers, _):
            head = await answers.readexactly(9)
            settings = await answers.readexactly(int.from_bytes(head[:3], "big"))
        assert dict(struct.iter_unpack(">HI", settings))[MAX_CONCURRENT_STREAMS] == MAX_GRPC_STREAMS

    run(test())


def test_a_client_acknowledges_soon(run: Run) -> None:
    async def test() -> None:
        window = frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1")
        sent = PREFACE + frame(SETTINGS, 0, 0) + window * (MAX_UNACKNOWLEDGED_FRAMES - 3)
        async with grpc_port(serving()) as port, connected(port, sent) as (answers, client):
            client.write(call(1, LIVE.encode(), b"", b""))
            await answers.readuntil(OK)
            client.write(window)
            with contextlib.suppress(ConnectionResetError):
                await answers.read()

    run(test())


@pytest.mark.parametrize("certified", [False, True], ids=["plain", "tls"])
def test_large_messages_pass_as_they_are(run: Run, tmp_path: Path, *, certified: bool) -> None:
    issued = tls.issue(tmp_path)
    tensor = Tensor.from_numpy("x", np.random.default_rng(0).integers(0, 256, LARGE, np.uint8))
    request = wire.request_to_proto(TensorRequest((tensor,), "42"), "m")
    certificate = Certificate(Tls(str(issued.chain), str(issued.key), grpc=True)) if certified else None

    async def test() -> None:
        server = grpc_port(serving(FakeModel()), max_message_size=2 * LARGE, certificate=certificate)
        async with server as port, channel(port, issued.authority if certified else None) as over:
            infer = over.unary_unary(INFER)
            answers = await asyncio.gather(*(infer(request.SerializeToString()) for _ in range(3)))
        received = [pb.ModelInferResponse.FromString(answer).raw_output_contents for answer in answers]
        assert received == [request.raw_input_contents] * 3

    run(test())


def channel(port: int, authority: Path | None = None) -> grpc.aio.Channel:
    options = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
    if authority:
        credentials = grpc.ssl_channel_credentials(authority.read_bytes())
        return grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options)
    return grpc.aio.insecure_channel(f"127.0.0.1:{port}", options)


def test_a_response_waits_in_grpc_while_its_client_does_not_read(run: Run) -> None:
    """However much the client allows to be sent."""
    large = TensorResponse("m", "1", (Tensor.from_numpy("x", np.zeros(5 * LARGE, np.uint8)),))

    async def infer(_: TensorRequest, __: Call) -> TensorResponse:
        return large

    async def test() -> None:
        budget = ByteBudget()
        windows = frame(SETTINGS, 0, 0, b"\0\4\x7f\xff\xff\xff") + frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\0\0")
        sent = PREFACE + windows + call(1, INFER.encode(), b"", REQUEST)
        server = grpc_port(serving(FakeModel(infer)), budget=budget)
        async with server as port, connected(port, sent) as (answers, _):
            while budget.held < 5 * LARGE * GRPC_COPIES:  # noqa: ASYNC110 - the server's next turns
                await asyncio.sleep(0.01)
            async with channel(port) as other:
                for _ in range(20):
                    await other.unary_unary(LIVE)(b"")
            assert budget.held >= 5 * LARGE * GRPC_COPIES
            reading = asyncio.create_task(answers.read())
            while budget.held:  # noqa: ASYNC110 - the server's next turns, also after the last that it sends
                await asyncio.sleep(0.01)
            reading.cancel()

    run(test())


def test_a_call_ends_with_the_last_that_its_client_sends(run: Run) -> None:
    """gRPC ends the calls of a client that has closed its half of the connection."""

    async def wait(_: TensorRequest, __: Call) -> TensorResponse:
        called.set()
        try:
            return await asyncio.Future()
        finally:
            ended.set()

    async def test() -> None:
        sent = PREFACE + frame(SETTINGS, 0, 0) + call(1, INFER.encode(), b"", REQUEST)
        async with grpc_port(serving(FakeModel(wait))) as port, connected(port, sent) as (answers, client):
            await called.wait()
            client.write_eof()
            await ended.wait()
            await answers.read()

    called, ended = asyncio.Event(), asyncio.Event()
    run(test())


def test_a_client_that_leaves_makes_room_for_another(run: Run) -> None:
    async def is_refused(port: int) -> bool:
        async with connected(port, b"") as (answers, _):
            return not await answers.read(1)

    async def test() -> None:
        async with grpc_port(serving(), max_connections=1) as port:
            async with connected(port, b"") as (answers, _):
                await answers.readexactly(1)
                assert await is_refused(port)
            while await is_refused(port):  # noqa: ASYNC110 - the server's next turns
                await asyncio.sleep(0.01)

    run(test())


def test_a_client_is_told_that_grpc_has_ended(run: Run) -> None:
    async def test() -> None:
        async with relaying(free_port()) as (_, port), connected(port, b"") as (answers, _):
            assert await answers.read() == b""

    run(test())


@pytest.mark.parametrize("size", [1, 7, 9, 1000])
def test_other_frames_come_between_those_of_grpc(size: int) -> None:
    fields, rest = frame(HEADERS, 0, 1, b"x" * 20), frame(CONTINUATION, END_HEADERS, 1, b"x" * 20)
    sent = [
        OPENING,
        frame(HEADERS, END_HEADERS, 1, b"x"),
        fields + rest,
        frame(DATA, 0, 1, bytes(300)),
        ACKNOWLEDGEMENT,
    ]
    boundaries, whole = Boundaries(), b"".join(sent)
    starts = range(0, len(whole), size)

    found = {start + size for start in starts if boundaries.is_between(whole[start : start + size])}

    ends = {len(b"".join(sent[:number])) for number in range(1, len(sent) + 1)}
    assert found == {start + size for start in starts if min(start + size, len(whole)) in ends}


def test_a_call_that_crosses_the_end_of_a_server_is_served(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client has begun it before it read that the server ends."""
    monkeypatch.setattr(server_module, "DRAIN_IDLE", 20)

    async def test() -> None:
        server, port = grpc_server(serving())
        await server.start()
        async with connected(port, PREFACE + frame(SETTINGS, 0, 0) + ACKNOWLEDGEMENT) as (answers, client):
            await answers.readuntil(ACKNOWLEDGEMENT)
            stopping = asyncio.ensure_future(server.stop(60))
            await answers.readuntil(frame(GOAWAY, 0, 0, b"\x7f\xff\xff\xff" + bytes(4)))
            client.write(call(1, LIVE.encode(), b"", b""))
            await answers.readuntil(OK)
        await stopping

    run(test())


def test_a_client_may_go_while_a_server_ends(run: Run) -> None:
    peers: asyncio.Queue[int] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OPENING)
        await peers.put(writer.get_extra_info("peername")[1])
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        writer.close()
        ended.set()

    async def test() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as upstream:
            async with (
                relaying(upstream.sockets[0].getsockname()[1]) as (relay, port),
                connected(port, b"") as (answers, _),
            ):
                await answers.readexactly(len(OPENING))
                relay.abort(f"ipv4:127.0.0.1:{await peers.get()}")
                await asyncio.sleep(0)  # its transport is closed; the relay has not noticed
                await relay.dismiss(20)
            await ended.wait()

    ended = asyncio.Event()
    run(test())


def test_the_end_of_a_server_waits_for_no_client_for_long(run: Run) -> None:
    """One that has not said a word, and one that does not close its connection."""

    async def test() -> None:
        server, port = grpc_server(serving())
        await server.start()
        async with connected(port, b"") as (silent, _), connected(port, PREFACE + frame(SETTINGS, 0, 0)) as (idle, _):
            await idle.readexactly(9)
            await server.stop(0.1)
            await silent.read()
            await idle.read()

    run(test())
