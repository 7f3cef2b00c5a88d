"""The gRPC server on a port of its own, asked by a real client."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message

from data_plane.errors import (
    DeadlineExceeded,
    InferenceFailed,
    InvalidRequest,
    NotReady,
    QueueFull,
    ServingError,
    UnprocessableInput,
    Unsupported,
    UpstreamBroken,
    UpstreamError,
)
from data_plane.model import Call, Models, Repository
from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from data_plane.server.grpc.relay import GrpcRelay
from data_plane.server.run import EVERY_ADDRESS
from tests.support.fake_models import FakeModel, echo, serving
from tests.support.grpc_servers import grpc_port, grpc_server

BLINK_S = 0.05
INFER = "/inference.GRPCInferenceService/ModelInfer"
TENSOR = Tensor.from_numpy("x", np.array([1, 2], dtype=np.float32))
REQUEST = wire.request_to_proto(TensorRequest((TENSOR,), "42"), "m")
REQUEST_TO_N = wire.request_to_proto(TensorRequest((TENSOR,), "42"), "n")

Ask = Callable[..., Awaitable[Any]]


@asynccontextmanager
async def asking(models: Models, **options: Any) -> AsyncIterator[Ask]:
    """A function that calls a method by its name."""
    async with grpc_port(models, **options) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield lambda method, request, **options: call_method(channel, method, request, **options)


def call_method(channel: grpc.aio.Channel, method: str, request: Message | bytes, **options: Any) -> Any:
    answer = getattr(pb, f"{method}Response", Message)
    stub: Any = channel.unary_unary(
        f"/inference.GRPCInferenceService/{method}",
        request_serializer=lambda message: message if isinstance(message, bytes) else message.SerializeToString(),
        response_deserializer=answer.FromString,
    )
    return stub(request, **options)


async def refusal(call: Any) -> tuple[grpc.StatusCode, str, dict[str, Any]]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value.code(), raised.value.details() or "", dict(raised.value.trailing_metadata())


async def test_a_compressed_message_is_bounded_by_what_it_becomes() -> None:
    async with asking(serving(FakeModel()), max_message_size=1_000_000) as ask:
        code, words, _ = await refusal(ask("ModelInfer", bytes(20_000_000), compression=grpc.Compression.Gzip))

    assert (code, words) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "Decompressed message larger than max")


@pytest.mark.parametrize("host", ["127.0.0.1", EVERY_ADDRESS], ids=["ipv4", "any"])
@pytest.mark.parametrize("field", ["model_name", "triton_model_name"])
async def test_models_are_loaded_and_unloaded_by_kserves_and_by_tritons_clients(field: str, host: str) -> None:
    class Repository:
        done: list[str] = []  # noqa: RUF012

        async def load(self, name: str) -> None:
            self.done.append(f"load {name}")

        async def unload(self, name: str) -> None:
            self.done.append(f"unload {name}")

    models = serving()
    repository = models.repository = Repository()
    repository.done = []
    async with asking(models, host=host) as ask:
        loaded = await ask("RepositoryModelLoad", pb.RepositoryModelLoadRequest(**{field: "m"}))
        unloaded = await ask("RepositoryModelUnload", pb.RepositoryModelUnloadRequest(**{field: "m"}))
    assert repository.done == ["load m", "unload m"]
    assert loaded == pb.RepositoryModelLoadResponse(model_name="m", isLoaded=True)
    assert unloaded == pb.RepositoryModelUnloadResponse(model_name="m", isUnloaded=True)


async def test_models_are_not_loaded_for_other_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GrpcRelay, "address_of", lambda *_: "10.0.0.1")
    models = serving()
    models.repository = cast("Repository", object())  # which is not asked
    async with asking(models) as ask:
        code, words, _ = await refusal(ask("RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="m")))

    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert words.startswith("Models are loaded and unloaded from within the pod only;")


async def test_a_call_carries_metadata_and_the_sooner_deadline() -> None:
    model = FakeModel()
    async with asking(serving(model)) as ask:
        before = time.monotonic()
        call = ask("ModelInfer", REQUEST, metadata=(("x-request-id", "r-1"), ("authorization", "Bearer t")))
        await call
        await ask("ModelInfer", REQUEST, timeout=30)
        after = time.monotonic()
    patient, hasty = model.calls
    assert (patient.id, dict(patient.headers)[b"authorization"]) == ("r-1", b"Bearer t")
    assert dict(await call.trailing_metadata()) == {"x-request-id": "r-1"}
    assert patient.timeout_s == 60
    assert before + 60 <= patient.deadline <= after + 60
    assert before < hasty.deadline < before + 40  # on the wire gRPC rounds it up


async def test_the_times_of_a_call_are_told_to_who_asks() -> None:
    async def timed(request: TensorRequest, call: Call) -> TensorResponse:
        call.timings.update(queue=0.25, model=0.0015)
        return await echo(request, call)

    async def late(request: TensorRequest, call: Call) -> TensorResponse:
        await timed(request, call)
        raise DeadlineExceeded("late")

    asking_for_times = (("x-request-id", "r-1"), ("x-server-timing", "1"))
    async with asking(serving(FakeModel(timed), FakeModel(late, "n"))) as ask:
        told = ask("ModelInfer", REQUEST, metadata=asking_for_times)
        untold = ask("ModelInfer", REQUEST, metadata=asking_for_times[:1])
        metadata = [dict(await call.trailing_metadata()) for call in (told, untold)]
        refused = await refusal(ask("ModelInfer", REQUEST_TO_N, metadata=asking_for_times))

    times = "queue;dur=250.000, model;dur=1.500"
    assert metadata == [{"x-request-id": "r-1", "server-timing": times}, {"x-request-id": "r-1"}]
    assert refused[2] == {"x-request-id": "r-1", "server-timing": times, "x-component": "queue"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidRequest("wrong"), grpc.StatusCode.INVALID_ARGUMENT),
        (UnprocessableInput("wrong shape"), grpc.StatusCode.INVALID_ARGUMENT),
        (QueueFull("m", 100), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (InferenceFailed("boom"), grpc.StatusCode.INTERNAL),
        (Unsupported("not here"), grpc.StatusCode.UNIMPLEMENTED),
        (UpstreamBroken("gone"), grpc.StatusCode.INTERNAL),
        (UpstreamError("TorchServe", 503, "no worker"), grpc.StatusCode.UNAVAILABLE),
        (NotReady("soon"), grpc.StatusCode.UNAVAILABLE),
        (DeadlineExceeded("late"), grpc.StatusCode.DEADLINE_EXCEEDED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, ServingError) else None,
)
async def test_an_error_becomes_a_code_with_its_message_and_who_said_it(
    error: ServingError, code: grpc.StatusCode
) -> None:
    async with asking(serving(FakeModel(failing(error)))) as ask:
        refused = await refusal(ask("ModelInfer", REQUEST, metadata=(("x-request-id", "r-1"),)))
    metadata = {"x-request-id": "r-1", "x-component": error.component}
    if error.retry_after_s:
        metadata["retry-after"] = str(error.retry_after_s)
    assert refused == (code, error.message, metadata)


async def test_what_an_error_quotes_can_be_sent() -> None:
    async with asking(serving(FakeModel(failing(InferenceFailed("no label \ud800"))))) as ask:
        code, message, _ = await refusal(ask("ModelInfer", REQUEST))
    assert (code, message) == (grpc.StatusCode.INTERNAL, r"no label \ud800")


async def test_a_message_longer_than_clients_take_is_cut() -> None:
    async with asking(serving(FakeModel(failing(InferenceFailed("é" * 10_000))))) as ask:
        code, message, _ = await refusal(ask("ModelInfer", REQUEST))
    assert code is grpc.StatusCode.INTERNAL
    assert set(message) == {"é"}


async def test_a_message_over_the_limit_is_refused() -> None:
    async with asking(serving(FakeModel()), max_message_size=10) as ask:
        code, _, _ = await refusal(ask("ModelInfer", REQUEST))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_client_that_hangs_up_is_gone() -> None:
    started, ended = asyncio.Event(), asyncio.Event()
    gone: list[bool] = []

    async def wait(_: TensorRequest, call: Call) -> TensorResponse:
        gone.append(call.is_gone())
        started.set()
        try:
            return await asyncio.Future()
        finally:
            gone.append(call.is_gone())
            ended.set()

    async with asking(serving(FakeModel(wait))) as ask:
        call = ask("ModelInfer", REQUEST)
        waiting = asyncio.ensure_future(call)
        await started.wait()
        call.cancel()
        await ended.wait()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert gone == [False, True]


async def test_calls_under_way_are_finished_before_the_end() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def wait(request: TensorRequest, call: Call) -> TensorResponse:
        started.set()
        await go_on.wait()
        return await echo(request, call)

    server, port = grpc_server(serving(FakeModel(wait)))
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        under_way = asyncio.ensure_future(call_method(channel, "ModelInfer", REQUEST))
        await started.wait()
        stopping = asyncio.ensure_future(server.stop(60))
        await asyncio.sleep(3 * BLINK_S)
        go_on.set()
        assert (await under_way).id == "42"
        await stopping


async def test_no_call_outlasts_the_grace_period() -> None:
    server, port = grpc_server(serving(FakeModel()))
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")()
        await call.write(REQUEST.SerializeToString())
        assert await call.read()

        await asyncio.wait_for(server.stop(BLINK_S), 15)


async def test_a_message_that_is_arriving_is_waited_for() -> None:
    go_on = asyncio.Event()

    async def late() -> AsyncIterator[bytes]:
        await go_on.wait()
        yield REQUEST.SerializeToString()

    server, port = grpc_server(serving(FakeModel()))
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        under_way: Any = channel.stream_unary(INFER)(late())
        await call_method(channel, "ServerLive", pb.ServerLiveRequest())  # the server knows of the other call as well
        stopping = asyncio.ensure_future(server.stop(60))
        await asyncio.sleep(3 * BLINK_S)
        go_on.set()

        assert pb.ModelInferResponse.FromString(await under_way).id == "42"
        await stopping


async def test_a_response_that_its_client_receives_slowly_is_waited_for() -> None:
    response = TensorResponse("m", "1", (Tensor.from_numpy("x", np.zeros(100_000, np.uint8)),))

    called = asyncio.Event()

    async def infer(_: TensorRequest, __: Call) -> TensorResponse:
        called.set()
        return response

    server, port = grpc_server(serving(FakeModel(infer)))
    await server.start()
    reads = asyncio.Event()
    reads.set()
    async with (
        slow_line(port, reads) as line,
        grpc.aio.insecure_channel(f"127.0.0.1:{line}", (("grpc.http2.lookahead_bytes", 1_000_000),)) as channel,
    ):
        await call_method(channel, "ServerLive", pb.ServerLiveRequest())
        reads.clear()
        under_way = asyncio.ensure_future(call_method(channel, "ModelInfer", REQUEST))
        await called.wait()
        stopping = asyncio.ensure_future(server.stop(60))
        await asyncio.sleep(3 * BLINK_S)
        # It does not know yet that the server ends: what it sends to a closed connection resets it.
        another = asyncio.ensure_future(call_method(channel, "ServerLive", pb.ServerLiveRequest()))
        await asyncio.sleep(3 * BLINK_S)
        reads.set()

        assert len((await under_way).raw_output_contents[0]) == 100_000
        await stopping
        await asyncio.wait([another])


@asynccontextmanager
async def slow_line(server: int, reads: asyncio.Event) -> AsyncIterator[int]:
    """The port of a line to the server that brings what the server sends only when ``reads`` is set."""
    loop = asyncio.get_running_loop()

    async def bring(source: socket.socket, target: socket.socket, may_read: asyncio.Event | None = None) -> None:
        while not may_read or await may_read.wait():
            if not (data := await loop.sock_recv(source, 16384)):
                target.shutdown(socket.SHUT_WR)
                return
            await loop.sock_sendall(target, data)

    async def serve(listener: socket.socket, upstream: socket.socket) -> None:
        client, _ = await loop.sock_accept(listener)
        with client:
            client.setblocking(False)
            async with asyncio.TaskGroup() as group:
                group.create_task(bring(client, upstream))
                group.create_task(bring(upstream, client, reads))

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as upstream:
        upstream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)  # so that the rest stays with the server
        upstream.connect(("127.0.0.1", server))
        upstream.setblocking(False)
        listener.setblocking(False)
        serving_ = asyncio.ensure_future(serve(listener, upstream))
        yield listener.getsockname()[1]
        serving_.cancel()


def failing(error: Exception) -> Callable[[TensorRequest, Call], Awaitable[TensorResponse]]:
    async def fail(_: TensorRequest, __: Call) -> TensorResponse:
        raise error

    return fail
