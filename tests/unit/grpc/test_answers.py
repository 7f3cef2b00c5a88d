"""Answers over gRPC that clients do not read: they count, and are not kept for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import pytest

from data_plane.limits import GRPC_COPIES
from data_plane.model import Call, Streaming
from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from data_plane.server.budget import ByteBudget
from data_plane.server.grpc import unread
from data_plane.server.metrics import ServerMetrics
from data_plane.server.run import EVERY_ADDRESS
from tests.support.fake_models import FakeModel, serving
from tests.support.grpc_servers import grpc_port

SIZE = 1_000_000  # bytes of an answer: more than the windows and sockets of a client that does not read
REQUEST = wire.request_to_proto(
    TensorRequest((Tensor.from_numpy("x", np.array([1.0])),), "42"), "m"
).SerializeToString()
LARGE = TensorResponse("m", "1", (Tensor.from_numpy("x", np.zeros(SIZE, np.uint8)),))
SMALL_WINDOW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65535))
INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM_INFER = "/inference.GRPCInferenceService/ModelStreamInfer"
LIVE = "/inference.GRPCInferenceService/ServerLive"
BOTH = pytest.mark.parametrize("method", [INFER, STREAM_INFER])


class LargeModel(FakeModel, Streaming):
    """Answers with much."""

    async def infer(self, request: TensorRequest, call: Call) -> TensorResponse:
        return LARGE

    async def infer_stream(self, request: TensorRequest, call: Call) -> AsyncGenerator[TensorResponse, None]:
        yield LARGE


@dataclass
class Asking:
    """A server, and a client of it."""

    budget: ByteBudget
    port: int
    channel: grpc.aio.Channel

    async def unread(self, method: str) -> Any:
        """A call whose answer waits for its client."""
        call: Any = self.channel.stream_stream(method)()
        await call.write(REQUEST)
        await call.done_writing()
        await self.until(lambda: self.budget.held >= SIZE * GRPC_COPIES)
        return call

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not is_so():
                await self.live()

    async def live(self) -> bool:
        options = (("grpc.use_local_subchannel_pool", 1),)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.port}", options) as other:
            return bool(pb.ServerLiveResponse.FromString(await other.unary_unary(LIVE)(b"")).live)


@asynccontextmanager
async def asking(host: str = "127.0.0.1") -> AsyncIterator[Asking]:
    budget = ByteBudget(GRPC_COPIES * SIZE * 3 // 2)
    async with (
        grpc_port(serving(LargeModel()), host=host, max_message_size=1000, budget=budget) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", SMALL_WINDOW) as channel,
    ):
        yield Asking(budget, port, channel)


class CountingModel(FakeModel, Streaming):
    """Looks how many requests are in flight while it runs."""

    def __init__(self, metrics: ServerMetrics) -> None:
        super().__init__()
        self.metrics = metrics
        self.seen: list[int] = []

    async def infer(self, request: TensorRequest, call: Call) -> TensorResponse:
        self.seen.append(self.metrics.in_flight.requests)
        return await super().infer(request, call)

    async def infer_stream(self, request: TensorRequest, call: Call) -> AsyncGenerator[TensorResponse, None]:
        yield await self.infer(request, call)


@BOTH
async def test_a_request_is_in_flight_until_it_is_answered_and_an_idle_stream_is_not(method: str) -> None:
    metrics = ServerMetrics()
    model = CountingModel(metrics)
    async with (
        grpc_port(serving(model), metrics) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        call: Any = channel.stream_stream(method)()
        await call.write(REQUEST)
        if method == INFER:
            await call.done_writing()
        async with asyncio.timeout(120):
            await call.read()
            while metrics.in_flight.requests:  # noqa: ASYNC110 - the server's next turns
                await asyncio.sleep(0)
        await call.done_writing()

    assert model.seen == [1]


@BOTH
async def test_an_answer_counts_until_it_is_read(method: str) -> None:
    async with asking() as asked:
        call = await asked.unread(method)

        assert len(await call.read()) >= SIZE
        assert await call.code() == grpc.StatusCode.OK
        await asked.until(lambda: asked.budget.held == 0)


async def test_one_that_finds_no_room_is_not_kept() -> None:
    async with asking() as asked:
        await asked.unread(INFER)

        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await asked.channel.unary_unary(INFER)(REQUEST)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert asked.budget.held < 2 * SIZE * GRPC_COPIES


@BOTH
async def test_it_counts_no_more_when_its_client_hangs_up(method: str) -> None:
    async with asking() as asked:
        call = await asked.unread(method)
        call.cancel()

        await asked.until(lambda: asked.budget.held == 0)


@BOTH
@pytest.mark.parametrize("host", ["127.0.0.1", EVERY_ADDRESS], ids=["ipv4", "any"])
async def test_a_client_that_does_not_read_is_given_up(method: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "TRANSFER_TIMEOUT", 0.2)
    monkeypatch.setattr(unread, "MIN_RATE", 100 * SIZE)
    async with asking(host) as asked:
        call = await asked.unread(method)

        await asked.until(lambda: asked.budget.held == 0)
        assert await call.code() is grpc.StatusCode.UNAVAILABLE
        assert await asked.live()
