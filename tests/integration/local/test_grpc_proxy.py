"""The port of a service for gRPC: calls arrive as they were made, and go to a pod that is ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from isvc.run.container import LOOPBACK
from isvc.run.endpoints import Endpoints
from isvc.run.grpc_proxy import grpc_proxy


class Pod(grpc.GenericRpcHandler):  # type: ignore[misc]
    """A server whose methods say what they got."""

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        async def once(request: bytes, context: Any) -> bytes:
            own = dict(context.invocation_metadata()).get("x-own", "")
            context.set_trailing_metadata((("x-end", "of the call"),))
            if request == b"fail":
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full")
            return f"{details.method} {own} {len(request)}".encode()

        async def stream(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            async for request in requests:
                yield request

        if details.method.endswith("Stream"):
            return grpc.stream_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(once)


@pytest.fixture
async def pod() -> AsyncIterator[int]:
    server = grpc.aio.server(handlers=[Pod()], options=[("grpc.max_receive_message_length", -1)])
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    await server.start()
    yield port
    await server.stop(None)


async def test_calls_and_streams_arrive_and_come_back(pod: int) -> None:
    async with (
        grpc_proxy("first-predictor", Endpoints((pod,))) as port,
        grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as channel,
    ):
        call = channel.unary_unary("/inference.V2/Infer")(b"x" * 10_000_000, metadata=(("x-own", "1"),))
        assert await call == b"/inference.V2/Infer 1 10000000"
        assert ("x-end", "of the call") in tuple(await call.trailing_metadata())

        both = channel.stream_stream("/inference.V2/Stream")()
        for message in (b"first", b"second"):
            await both.write(message)
            assert await both.read() == message
        await both.done_writing()
        assert await both.read() == grpc.aio.EOF


async def test_predictions_that_are_answered_are_told_with_their_duration(pod: int) -> None:
    told: list[float] = []
    async with (
        grpc_proxy("first-predictor", Endpoints((pod,)), told.append) as port,
        grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as channel,
    ):
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        await channel.unary_unary("/inference.GRPCInferenceService/ServerReady")(b"")
        with pytest.raises(grpc.aio.AioRpcError):
            await infer(b"fail")
        assert told == []

        await infer(b"x")

    (seconds,) = told
    assert seconds > 0


async def test_an_error_of_the_pod_is_that_of_the_call(pod: int) -> None:
    async with (
        grpc_proxy("first-predictor", Endpoints((pod,))) as port,
        grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await channel.unary_unary("/inference.V2/Infer")(b"fail")

    assert (raised.value.code(), raised.value.details()) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "the queue is full",
    )


async def test_without_a_ready_pod_a_call_is_refused_and_a_connection_is_kept(pod: int) -> None:
    endpoints = Endpoints()
    async with (
        grpc_proxy("first-predictor", endpoints) as port,
        grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await channel.unary_unary("/inference.V2/Infer")(b"")
        endpoints.use({pod: lambda: True})
        answer = await channel.unary_unary("/inference.V2/Infer")(b"12")

    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    assert (raised.value.details() or "").startswith("first-predictor has no ready pod")
    assert answer == b"/inference.V2/Infer  2"


async def test_a_call_that_goes_on_keeps_its_pod_busy(pod: int) -> None:
    endpoints = Endpoints((pod,))
    async with (
        grpc_proxy("first-predictor", endpoints) as port,
        grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as channel,
    ):
        both = channel.stream_stream("/inference.V2/Stream")()
        await both.write(b"first")
        await both.read()
        free = asyncio.create_task(endpoints.until_free(pod))
        await asyncio.sleep(0.1)
        assert not free.done()
        await both.done_writing()
        async with asyncio.timeout(120):
            await free
