"""Which calls over gRPC are logged, and what of their responses."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import numpy as np

from data_plane.errors import UpstreamBroken
from data_plane.model import Models
from data_plane.payload_logger.settings import Mode
from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from tests.support.event_sinks import event_of, responds, told
from tests.support.fake_models import FakeModel, serving
from tests.support.grpc_servers import grpc_server
from tests.unit.payload_logger.loggers import logging_to

LONG_S = 20.0
SERVICE = "/inference.GRPCInferenceService"
REQUEST = wire.request_to_proto(TensorRequest((Tensor.from_numpy("x", np.array([1.0])),), "42"), "m")
METADATA = (("x-request-id", "7"),)


@contextlib.asynccontextmanager
async def calling(models: Models) -> AsyncIterator[tuple[grpc.aio.Channel, list[bytes]]]:
    """A channel to a server, and the events of its calls, which are there after the block."""
    events: list[bytes] = []
    async with logging_to(responds(200), mode=Mode.ALL) as (logger, sink):
        server, port = grpc_server(models, payloads=logger)
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel, events
        await server.stop(LONG_S)
        await logger.close(LONG_S)
        events += sorted(sink.requests, key=lambda one: event_of(one)["type"])


async def gone(_: object, __: object) -> TensorResponse:
    raise UpstreamBroken("gone")


def framed(*messages: Any) -> bytes:
    sent = [one.SerializeToString() for one in messages]
    return b"".join(b"\0" + len(one).to_bytes(4, "big") + one for one in sent)


def infer(channel: grpc.aio.Channel) -> Any:
    return channel.unary_unary(
        f"{SERVICE}/ModelInfer",
        request_serializer=pb.ModelInferRequest.SerializeToString,
        response_deserializer=pb.ModelInferResponse.FromString,
    )


async def test_a_call_is_logged_as_grpc_carries_it() -> None:
    async with calling(serving(FakeModel())) as (channel, events):
        response = await infer(channel)(REQUEST, metadata=METADATA)

    assert told(events) == [("request", "7", framed(REQUEST)), ("response", "7", framed(response))]
    assert {event_of(one)["datacontenttype"] for one in events} == {"application/grpc"}


async def test_of_a_failed_call_there_is_no_response() -> None:
    async with calling(serving(FakeModel(gone))) as (channel, events):
        with contextlib.suppress(grpc.aio.AioRpcError):
            await infer(channel)(REQUEST, metadata=METADATA)

    assert told(events) == [("request", "7", framed(REQUEST))]


async def test_calls_that_ask_for_health_are_not_logged() -> None:
    async with calling(serving(FakeModel())) as (channel, events):
        live = channel.unary_unary(f"{SERVICE}/ServerLive", response_deserializer=pb.ServerLiveResponse.FromString)
        assert (await live(b"")).live

    assert events == []


async def test_each_request_of_a_stream_is_logged_with_its_responses() -> None:
    async with calling(serving(FakeModel())) as (channel, events):
        stub: Any = channel.stream_stream(
            f"{SERVICE}/ModelStreamInfer",
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelStreamInferResponse.FromString,
        )
        call = stub(metadata=METADATA, timeout=30)
        responses = []
        for _ in range(2):
            await call.write(REQUEST)
            responses.append(await call.read())
        await call.done_writing()

    assert told(events) == sorted(
        [("request", "7", framed(REQUEST))] * 2 + [("response", "7", framed(one)) for one in responses]
    )
