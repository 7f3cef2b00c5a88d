"""The client against a stand-in for TorchServe: what it sends, and what becomes of everything that can go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from data_plane.batching.sequences import SequenceLimits
from data_plane.errors import ClientGone, NotReady, ServingError
from data_plane.messages import Response
from torchserve_adapter.batching import FRAME_BYTES
from torchserve_adapter.client import TorchServeClient, TorchServeVersion
from torchserve_compat.frames import (
    HandlerBatch,
    HandlerRequest,
    HandlerResponse,
    HandlerResult,
    Piece,
    RequestPart,
    decode_batch,
    encode,
)
from torchserve_compat.wire import Kind, framed

VERSION = TorchServeVersion(
    version="1.0", archive="bert.mar", workers=1, max_workers=2, batch_size=4, response_timeout_s=120,
    startup_timeout_s=60,
)  # fmt: skip
PIECE = Piece("0", HandlerResponse(b"one "))


def batch(*bodies: bytes) -> HandlerBatch:
    return HandlerBatch(
        "raw", [HandlerRequest(str(index), (), [RequestPart("body", "", body)]) for index, body in enumerate(bodies)]
    )


async def echo(request: web.Request) -> web.Response:
    """Each body comes back with the frame's path and type."""
    received = decode_batch(await request.read())
    said = f"{request.raw_path} {request.content_type} ".encode()
    answers = [HandlerResponse(said + one.parts[0].value[-3:]) for one in received.requests]
    return web.Response(body=encode(HandlerResult(answers, 0.25)))


async def echo_sequence(request: web.Request) -> web.Response:
    """The sequence that TorchServe would put the frame into, and the headers in the frame."""
    (received,) = decode_batch(await request.read()).requests
    said = f"{request.headers.getall('ts_request_sequence_id')} {received.headers}"
    return web.Response(body=encode(HandlerResult([HandlerResponse(said.encode())], 0.25)))


async def refuse(_: web.Request) -> web.Response:
    return web.json_response({"code": 507, "type": "X", "message": "out of memory"}, status=507)


async def refuse_in_words(_: web.Request) -> web.Response:
    return web.Response(text="busy\n", status=429)


async def nonsense(_: web.Request) -> web.Response:
    return web.Response(text="hello")


async def hang(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


async def hang_up(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def lose_the_worker(_: web.Request) -> web.Response:
    return web.json_response({"code": 500, "type": "X", "message": "Worker died."}, status=500)


async def refuse_without_a_ticket(_: web.Request) -> web.Response:
    message = 'Model "bert" has no worker to serve inference request. Please use scale workers API to add workers.'
    return web.json_response({"code": 503, "type": "X", "message": message}, status=503)


async def lose_the_worker_to_a_kill(_: web.Request) -> web.Response:
    return web.json_response({"code": 507, "type": "X", "message": "Worker died."}, status=507)


def described(version: str = "1.0", *statuses: str) -> dict[str, object]:
    """As much of TorchServe's description as is read."""
    return {
        "modelVersion": version,
        "modelUrl": "bert.mar",
        "maxWorkers": 2,
        "batchSize": 4,
        "responseTimeout": 120,
        "startupTimeout": 60,
        "workers": [{"status": status} for status in statuses],
    }


async def versions(request: web.Request) -> web.Response:
    if request.match_info["model"] == "two":
        return web.json_response([described("1.0", "READY"), described("2.0", "READY", "UNLOADING")])
    return web.json_response([described("1.0", "READY")])


async def default_version(_: web.Request) -> web.Response:
    return web.json_response([described("2.0")])


async def stateful(_: web.Request) -> web.Response:
    sequences = {"stateful": True, "sequenceMaxIdleMSec": 60000, "sequenceTimeoutMSec": 0, "maxNumSequence": 8}
    return web.json_response([described("1.0", "READY") | sequences | {"maxSequenceJobQueueSize": 3}])


async def not_found(_: web.Request) -> web.Response:
    return web.json_response({"code": 404, "type": "X", "message": "Model not found"}, status=404)


async def break_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"ts_stream_next": "true"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    await response.write(framed(encode(PIECE), Kind.PIECE))
    assert request.transport is not None
    request.transport.abort()
    return response


async def end_early(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"ts_stream_next": "true"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    await response.write(framed(encode(PIECE), Kind.PIECE))
    return response


async def trouble(_: web.Request) -> web.Response:
    return web.json_response({"code": 503, "type": "X", "message": "not now"}, status=503)


async def names(request: web.Request) -> web.Response:
    start = int(request.query["next_page_token"])
    page = {"models": [{"modelName": f"m{number}"} for number in range(start, min(start + 100, 130))]}
    return web.json_response(page if start + 100 >= 130 else {**page, "nextPageToken": "100"})


async def managed(request: web.Request) -> web.Response:
    body = f"{request.method} {request.raw_path}".encode()
    return web.Response(body=body, status=202, content_type="text/x-managed")


@pytest.fixture
async def client() -> AsyncIterator[TorchServeClient]:
    app = web.Application(client_max_size=4 * FRAME_BYTES)
    for model, handler in (
        ("a b", echo),
        ("stateful", echo_sequence),
        ("full", refuse),
        ("busy", refuse_in_words),
        ("dying", lose_the_worker),
        ("killed", lose_the_worker_to_a_kill),
        ("unticketed", refuse_without_a_ticket),
        ("nonsense", nonsense),
        ("slow", hang),
        ("cut", hang_up),
        ("broken", break_off),
        ("short", end_early),
    ):
        app.router.add_post(f"/predictions/{model}/1.0", handler)
    app.router.add_get("/models", names)
    app.router.add_post("/models", managed)
    app.router.add_get("/models/{model:one|two}/all", versions)
    app.router.add_get("/models/two", default_version)
    app.router.add_get("/models/stateful/all", stateful)
    app.router.add_get("/models/troubled/all", trouble)
    app.router.add_get("/models/{model}/all", not_found)
    async with TestServer(app) as server, client_of(str(server.make_url("")).rstrip("/")) as made:
        yield made


def client_of(address: str) -> TorchServeClient:
    return TorchServeClient(dict.fromkeys(("inference_address", "management_address", "metrics_address"), address))


def wanted() -> bool:
    """Somebody waits for the batch."""
    return True


def no_piece(piece: Piece) -> bool:
    raise AssertionError(piece)


def unheard() -> None:
    """Answers that nobody counts."""


async def test_large_bodies_go_in_several_requests_and_come_back_in_order(client: TorchServeClient) -> None:
    half = FRAME_BYTES // 2
    bodies = (b"1" * half, b"2" * half, b"3" * (2 * FRAME_BYTES), b"4")

    result = await client.transport("a b", VERSION, unheard).send(batch(*bodies), wanted, no_piece)

    assert [answer.body[-1:] for answer in result.responses] == [b"1", b"2", b"3", b"4"]
    assert result.seconds == 0.75


@pytest.mark.parametrize(
    ("model", "status", "component", "message"),
    [
        ("full", 507, "torchserve", "torchserve: out of memory"),
        ("busy", 429, "torchserve", "torchserve: busy"),
        ("dying", 502, "worker", "The worker of model dying died while it had the request."),
        ("killed", 502, "worker", "The worker of model killed died while it had the request; if that was for memory"),
        ("cut", 502, "torchserve", "torchserve: it closed the connection without a response."),
        ("nonsense", 502, "torchserve", "torchserve: the response cannot be read (Expected `array`, got `int`)."),
    ],
)
async def test_what_goes_wrong_upstream_has_its_own_status(
    client: TorchServeClient, model: str, status: int, component: str, message: str
) -> None:
    with pytest.raises(ServingError) as raised:
        await client.transport(model, VERSION, unheard).send(batch(b""), wanted, no_piece)

    assert (raised.value.status, raised.value.component) == (status, component)
    assert raised.value.message.startswith(message)


async def test_nothing_is_sent_to_a_version_that_was_given_up(client: TorchServeClient) -> None:
    transport = client.transport("a b", VERSION, unheard)
    transport.give_up()

    with pytest.raises(NotReady, match="Model a b has no worker any more"):
        await transport.send(batch(b"one"), wanted, no_piece)


async def test_a_request_is_dropped_whose_callers_are_gone_before_a_worker_is_idle(client: TorchServeClient) -> None:
    with pytest.raises(ClientGone):
        await client.transport("unticketed", VERSION, unheard).send(batch(b"one"), lambda: False, no_piece)


async def test_a_torchserve_that_never_answers_is_a_timeout(client: TorchServeClient) -> None:
    # Beyond the time of the worker it has half a minute, which is not waited for here.
    impatient = replace(VERSION, response_timeout_s=-30, startup_timeout_s=0.5)  # type: ignore[arg-type]

    with pytest.raises(ServingError) as raised:
        await client.transport("slow", impatient, unheard).send(batch(b""), wanted, no_piece)

    assert (raised.value.status, raised.value.message) == (504, "torchserve: model slow did not answer within 0.5 s.")


async def test_the_versions_of_a_model_are_described_the_default_first(client: TorchServeClient) -> None:
    assert await client.describe("one") == (VERSION,)
    assert await client.describe("two") == (replace(VERSION, version="2.0"), VERSION)
    assert await client.describe("unknown") == ()
    assert await client.describe("troubled") is None


async def test_models_are_listed_to_the_last_page(client: TorchServeClient) -> None:
    assert await client.names() == tuple(f"m{number}" for number in range(130))


async def test_management_passes_both_ways(client: TorchServeClient) -> None:
    answer = await client.manage("POST", "/models?url=a%20b")

    assert answer == Response(b"POST /models?url=a%20b", 202, b"text/x-managed")


async def test_nobody_there_is_not_ready(unused_tcp_port: int) -> None:
    async with client_of(f"http://127.0.0.1:{unused_tcp_port}") as alone:
        assert await alone.describe("one") is None
        assert await alone.names() is None
        assert await alone.metrics() == b""
        with pytest.raises(ServingError, match="torchserve: no connection to TorchServe") as raised:
            await alone.transport("one", VERSION, unheard).send(batch(b""), wanted, no_piece)

    assert (raised.value.status, raised.value.retry_after_s, raised.value.component) == (503, 1, "torchserve")


@pytest.mark.parametrize(
    ("model", "allowed_s", "status", "message"),
    [
        ("broken", 120, 502, "The worker of model broken died while it had the request."),
        ("broken", 0, 504, "Model broken did not answer within 0 s (responseTimeout); TorchServe restarts its worker."),
        ("short", 120, 502, "torchserve: the response ended before its last piece."),
    ],
)
async def test_an_answer_that_breaks_off_after_a_piece_is_an_error(
    client: TorchServeClient, model: str, allowed_s: int, status: int, message: str
) -> None:
    transport = client.transport(model, replace(VERSION, response_timeout_s=allowed_s), unheard)

    with pytest.raises(ServingError) as raised:
        await transport.send(batch(b"one"), wanted, lambda _: True)

    assert (raised.value.status, raised.value.message) == (status, message)


SEQUENCES = SequenceLimits(max_sequences=8, max_idle_s=54.0, queue_size=3)


async def test_the_limits_of_sequences_are_torchserves_with_a_shorter_time(client: TorchServeClient) -> None:
    assert await client.describe("stateful") == (replace(VERSION, startup_timeout_s=60, sequences=SEQUENCES),)


async def test_torchserve_is_told_the_mark_of_a_sequence_and_the_handler_its_id(client: TorchServeClient) -> None:
    transport = client.transport("stateful", replace(VERSION, sequences=SEQUENCES), lambda: None)
    told = (b"ts_request_sequence_id", b"client's")
    request = HandlerRequest("0", (told, (b"isvc-sequence", b"7")), [])

    result = await transport.send(HandlerBatch("raw", [request]), wanted, no_piece)

    assert result.responses == [HandlerResponse(f"['7'] {(told,)}".encode())]
