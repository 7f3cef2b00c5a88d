"""How many messages a gRPC server takes in, how long it waits for them, and what it keeps for health."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
import pytest

from data_plane.limits import (
    GRPC_COPIES,
    GRPC_PING,
    GRPC_PING_TIMEOUT,
    MAX_GRPC_METADATA,
    MAX_GRPC_READERS,
    MAX_GRPC_STREAMS,
    MAX_GRPC_UNRELEASED,
    MIN_GRPC_READERS,
)
from data_plane.model import Call
from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from data_plane.server.budget import ByteBudget, Held
from data_plane.server.grpc import messages
from data_plane.server.grpc.messages import readers_within
from data_plane.server.grpc.server import GrpcServer
from data_plane.server.metrics import ServerMetrics
from data_plane.server.run import listen
from tests.support.fake_models import FakeModel, serving
from tests.support.grpc_servers import grpc_port
from tests.support.http2_frames import HEADERS, REFERENCE, RST_STREAM, GrpcVisitor, indexed, text

TENSOR = Tensor.from_numpy("x", np.array([1, 2], dtype=np.float32))
REQUEST = wire.request_to_proto(TensorRequest((TENSOR,), "42"), "m").SerializeToString()
INFER = "/inference.GRPCInferenceService/ModelInfer"
LIVE = "/inference.GRPCInferenceService/ServerLive"


@dataclass
class Asking:
    """A server, and a client of it."""

    budget: ByteBudget
    port: int
    channel: grpc.aio.Channel
    held: list[int]

    async def infer(self) -> bytes:
        return bytes(await self.channel.unary_unary(INFER)(REQUEST))

    async def live(self) -> bool:
        answer = await self.channel.unary_unary(LIVE)(b"")
        return bool(pb.ServerLiveResponse.FromString(answer).live)

    @asynccontextmanager
    async def stalled(self, number: int, method: str = INFER) -> AsyncIterator[list[Any]]:
        """Calls whose message does not come."""

        async def nothing() -> AsyncIterator[bytes]:
            await asyncio.Event().wait()
            yield b""

        calls = [self.channel.stream_unary(method)(nothing()) for _ in range(number)]
        await self.live()  # they are in the server
        yield calls
        for call in calls:
            call.cancel()
        await self.live()


@dataclass
class Watching(FakeModel):
    """Tells what the budget holds while it answers."""

    budget: ByteBudget = field(default_factory=ByteBudget)
    held: list[int] = field(default_factory=list)

    async def infer(self, request: TensorRequest, call: Call) -> TensorResponse:
        self.held.append(self.budget.held)
        return await super().infer(request, call)


@asynccontextmanager
async def asking(limit: int = 1_000_000, max_connections: int = 100) -> AsyncIterator[Asking]:
    budget = ByteBudget(limit)
    model = Watching(budget=budget)
    async with (
        grpc_port(serving(model), max_message_size=1000, budget=budget, max_connections=max_connections) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield Asking(budget, port, channel, model.held)


async def refusal(call: Any) -> tuple[grpc.StatusCode, str, Any]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    metadata = dict(raised.value.trailing_metadata())
    return raised.value.code(), raised.value.details() or "", metadata.get("retry-after")


async def test_a_message_counts_as_often_as_it_is_there_until_it_is_answered() -> None:
    async with asking() as asked:
        await asked.infer()

        assert (asked.held, asked.budget.held) == ([len(REQUEST) * GRPC_COPIES], 0)


async def test_one_that_finds_no_room_is_refused_and_health_is_answered() -> None:
    async with asking(limit=1000) as asked:
        others = Held(asked.budget)
        others.add(1000 - len(REQUEST))
        full = "Requests that are being read or answered hold 1000 bytes already (--max-buffered-bytes)"

        assert await refusal(asked.infer()) == (grpc.StatusCode.UNAVAILABLE, f"{full}; send it again later.", "1")
        assert await asked.live()

        others.add(len(REQUEST))  # now none is read
        assert (await refusal(asked.infer()))[0] is grpc.StatusCode.UNAVAILABLE
        assert await asked.live()

        others.release()
        assert await asked.infer()


async def test_one_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "TRANSFER_TIMEOUT", 0.05)
    async with asking() as asked, asked.stalled(1) as (late,):
        code, words, _ = await refusal(late)

        assert code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert words == "The message did not come within 0.05 s; send it without a pause."
        assert await asked.infer()


async def test_while_others_wait_it_is_given_up_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "HURRIED_MESSAGE_TIMEOUT", 0.05)
    readers = readers_within(ByteBudget(1_000_000), 1000)
    async with asking() as asked, asked.stalled(readers) as calls:
        assert await asked.infer()

        ends = [asyncio.ensure_future(call.code()) for call in calls]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        given_up = [await call.details() for call in calls if call.done()]
        assert given_up == ["The message did not come within 0.05 s; send it without a pause."]


async def test_so_many_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MAX_GRPC_WAITING", 0)
    readers = readers_within(ByteBudget(1_000_000), 1000)
    async with asking() as asked, asked.stalled(readers):
        assert await refusal(asked.infer()) == (
            grpc.StatusCode.UNAVAILABLE,
            "0 calls already wait until their message is read; send it again later.",
            "1",
        )


async def test_what_stalls_other_methods_stalls_no_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "HURRIED_MESSAGE_TIMEOUT", 0.05)  # health waits so long at most
    async with asking() as asked, asked.stalled(MIN_GRPC_READERS, f"{LIVE[:-4]}Ready"):
        assert await asked.infer()


async def test_calls_that_end_without_a_message_leave_no_trace() -> None:
    async with asking() as asked:
        for _ in range(3):
            async with asked.stalled(1):
                pass

        assert await asked.infer()
        assert asked.budget.held == 0


async def test_connections_are_limited() -> None:
    async with asking(max_connections=1) as asked:
        await asked.live()
        options = (("grpc.use_local_subchannel_pool", 1),)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{asked.port}", options) as second:
            assert (await refusal(second.unary_unary(LIVE)(b"")))[0] is grpc.StatusCode.UNAVAILABLE
        assert await asked.live()


@pytest.mark.parametrize(
    ("limit", "size", "readers"),
    [(1 << 40, 1, MAX_GRPC_READERS), (1, 1000, MIN_GRPC_READERS), (6_000_000, 100_000, 10)],
)
def test_as_many_are_read_at_a_time_as_half_of_the_budget_holds(limit: int, size: int, readers: int) -> None:
    assert readers_within(ByteBudget(limit), size) == readers


@pytest.mark.parametrize("acknowledges", [True, False])
async def test_a_connection_has_so_many_calls_at_a_time(*, acknowledges: bool) -> None:
    async with asking() as asked:
        refused = await asyncio.to_thread(first_refused_call, asked.port, acknowledges=acknowledges)

    assert refused == MAX_GRPC_UNRELEASED + 1


def first_refused_call(port: int, *, acknowledges: bool) -> int:
    with GrpcVisitor(port, acknowledges=acknowledges) as visitor:
        for _ in range(MAX_GRPC_UNRELEASED + 1):
            visitor.call(LIVE.encode(), b"")
        return next(stream for kind, stream, _ in visitor.frames() if kind == RST_STREAM) // 2 + 1


async def test_calls_that_a_client_delays_are_not_refused() -> None:
    """It begins one with each response, before the server has released the call that the response is of."""

    async def live(asked: Asking) -> None:
        for _ in range(5):
            assert await asked.live()

    async with asking() as asked:
        await asyncio.gather(*(live(asked) for _ in range(3 * MAX_GRPC_STREAMS)))


async def test_metadata_are_bounded() -> None:
    async with asking() as asked:
        call = asked.channel.unary_unary(LIVE)(b"", metadata=[("x", "a" * MAX_GRPC_METADATA)])
        assert (await refusal(call))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED

        assert await asked.channel.unary_unary(LIVE)(b"", metadata=[("x", "a" * (MAX_GRPC_METADATA - 1024))])


@pytest.mark.parametrize(("references", "status"), [(3, b"0"), (4, b"8"), (100, b"8")])
async def test_metadata_is_bounded_for_a_client_that_acknowledges_no_settings(references: int, status: bytes) -> None:
    """It is refused before a method is called: gRPC counts the calls of methods."""
    metrics = ServerMetrics()
    async with grpc_port(serving(), metrics) as port:
        trailers = await asyncio.to_thread(trailers_of_unacknowledged_call, port, references)

    assert b"grpc-status" + text(status) in trailers
    assert (b'grpc_requests_total{code="OK",method="ServerLive"} 1.0' in metrics.exposition()) == (status == b"0")


def trailers_of_unacknowledged_call(port: int, references: int) -> bytes:
    with GrpcVisitor(port, acknowledges=False) as visitor:
        visitor.call(LIVE.encode(), indexed(b"x", b"v" * 3900) + REFERENCE * references, b"")
        return next(payload for kind, _, payload in visitor.frames() if kind == HEADERS and b"grpc-status" in payload)


def test_a_silent_client_is_asked_whether_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_of_a_server(monkeypatch)

    times_ms = options["grpc.keepalive_time_ms"], options["grpc.keepalive_timeout_ms"]
    assert times_ms == (GRPC_PING * 1000, GRPC_PING_TIMEOUT * 1000)


def options_of_a_server(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What gRPC is told: the rest is its own."""
    told: list[Any] = []

    class Server:
        def __init__(self, options: Any) -> None:
            told.extend(options)

        def add_generic_rpc_handlers(self, _: object) -> None:
            """None is called."""

    monkeypatch.setattr(grpc.aio, "server", Server)
    with listen("127.0.0.1", 0) as listener:
        GrpcServer(serving(), ServerMetrics(), listener=listener, request_timeout_s=60, max_message_size=1000)
    return dict(told)
