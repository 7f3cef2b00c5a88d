"""ModelStreamInfer as Triton's clients call it: several answers to a request, several requests to a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
import pytest

from data_plane.errors import InvalidRequest, UpstreamBroken
from data_plane.model import Call, ServableModel, Streaming
from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from data_plane.server.grpc import messages
from tests.support.fake_models import FakeModel, serving
from tests.support.grpc_servers import grpc_port

METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"


def asked(name: str = "m", id: str = "1", *, raw: bool = True) -> pb.ModelInferRequest:  # noqa: A002
    return wire.request_to_proto(TensorRequest((Tensor.from_numpy("x", np.array([1.0])),), id), name, raw=raw)


class StreamingModel(FakeModel, Streaming):
    """Sends what a test puts into `said`; None is the end."""

    def __init__(self) -> None:
        super().__init__()
        self.said: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        self.is_closed = asyncio.Event()

    async def infer_stream(self, request: TensorRequest, call: Call) -> AsyncGenerator[TensorResponse, None]:
        self.calls.append(call)
        try:
            while (said := await self.said.get()) is not None:
                if isinstance(said, Exception):
                    raise said
                tensor = Tensor.from_numpy("text", np.array([said.encode()], dtype=object))
                yield TensorResponse("m", "1", (tensor,), is_last=said == "end")
        finally:
            self.is_closed.set()


@asynccontextmanager
async def stream(*models: ServableModel, **metadata: str) -> AsyncIterator[Any]:
    """A call of the method."""
    async with grpc_port(serving(*models)) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = channel.stream_stream(
            METHOD,
            request_serializer=lambda one: one if isinstance(one, bytes) else one.SerializeToString(),
            response_deserializer=pb.ModelStreamInferResponse.FromString,
        )
        yield stub(metadata=tuple(metadata.items()), timeout=30)


def told(answer: pb.ModelStreamInferResponse) -> tuple[str, str, bool]:
    """Id, text, and whether it is the last to its request."""
    response = answer.infer_response
    (tensor,) = wire.response_from_proto(response).outputs
    return response.id, tensor.data.item().decode(), response.parameters["triton_final_response"].bool_param


async def test_requests_of_a_stream_are_answered_one_after_the_other() -> None:
    model = StreamingModel()
    for word in ("one", "end", None, "end", None):
        model.said.put_nowait(word)
    async with stream(model) as call:
        for id_ in ("1", "2"):
            await call.write(asked(id=id_))
        await call.done_writing()

        assert [told(one) async for one in call] == [("1", "one", False), ("1", "end", True), ("2", "end", True)]
        assert await call.code() == grpc.StatusCode.OK


async def test_a_stream_may_wait_long_for_its_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "TRANSFER_TIMEOUT", 0.05)
    async with stream(FakeModel()) as call:
        for _ in range(2):
            await call.write(asked())
            assert (await call.read()).infer_response.id == "1"
            await asyncio.sleep(0.1)  # nothing happens that could be waited for


async def test_what_goes_wrong_is_a_message_with_the_requests_id_and_the_stream_goes_on() -> None:
    model = StreamingModel()
    for said in ("one", UpstreamBroken("the worker died"), "end"):
        model.said.put_nowait(said)
    async with stream(model) as call:
        await call.write(asked(id="1"))
        first, broken = told(await call.read()), await call.read()
        await call.write(asked(id="2"))

        assert first == ("1", "one", False)
        assert (broken.error_message, broken.infer_response.id) == ("the worker died", "1")
        assert told(await call.read()) == ("2", "end", True)


@pytest.mark.parametrize(
    ("message", "words"),
    [(asked("unknown"), "Model with name unknown does not exist"), (b"\xff\xff", "The body is not a")],
)
async def test_a_request_that_cannot_be_answered_is_told(message: Any, words: str) -> None:
    async with stream(FakeModel()) as call:
        await call.write(message)

        assert words in (await call.read()).error_message


async def test_a_client_that_wants_a_status_gets_it() -> None:
    model = StreamingModel()
    model.said.put_nowait("one")
    model.said.put_nowait(InvalidRequest("no such word"))
    async with stream(model, triton_grpc_error="true") as call:
        await call.write(asked())
        await call.read()
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call.read()

        assert (raised.value.code(), raised.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, "no such word")


async def test_a_client_that_hangs_up_ends_the_making_of_its_answer() -> None:
    model = StreamingModel()
    model.said.put_nowait("one")
    async with stream(model) as call:
        await call.write(asked())
        await call.read()
        call.cancel()

        await asyncio.wait_for(model.is_closed.wait(), 20)
