"""The client against a stand-in for TorchServe: what it passes on, and what becomes of everything that can go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from torchserve_adapter.client import TorchServeClient
from transformer_sdk.errors import NotReady, ServingError, UpstreamBroken, UpstreamError, UpstreamTimeout
from transformer_sdk.messages import Headers, Response


async def echo(request: web.Request) -> web.Response:
    body = b"|".join([await request.read(), *(b"%s=%s" % pair for pair in sorted(request.raw_headers))])
    return web.Response(
        body=body, status=201, headers={"X-Handler": "set", "Pragma": "no-cache", "X-Request-Id": "theirs"}
    )


async def refuse(_: web.Request) -> web.Response:
    return web.json_response({"code": 507, "type": "X", "message": "out of memory"}, status=507)


async def refuse_in_words(_: web.Request) -> web.Response:
    return web.Response(text="busy\n", status=429)


async def hang(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


async def hang_up(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def lose_the_worker(_: web.Request) -> web.Response:
    return web.json_response({"code": 500, "type": "X", "message": "Worker died."}, status=500)


async def versions(request: web.Request) -> web.Response:
    return web.json_response([version(request.match_info["model"])])


def version(model: str) -> dict[str, object]:
    return {"workers": [{"status": "READY"}], "responseTimeout": 0 if model == "hasty" else 120}


@pytest.fixture
async def client() -> AsyncIterator[TorchServeClient]:
    app = web.Application()
    for model, handler in (
        ("echo", echo),
        ("full", refuse),
        ("busy", refuse_in_words),
        ("hasty", lose_the_worker),
        ("dying", lose_the_worker),
        ("slow", hang),
        ("cut", hang_up),
    ):
        app.router.add_post(f"/predictions/{model}", handler)
    app.router.add_get("/models/{model:echo|hasty|dying}/all", versions)
    async with TestServer(app) as server, client_of(str(server.make_url("")).rstrip("/")) as made:
        yield made


def client_of(address: str) -> TorchServeClient:
    names = ("inference_address", "management_address", "metrics_address")
    return TorchServeClient(dict.fromkeys(names, address), request_timeout_s=0.2)


async def test_body_and_the_clients_own_headers_pass(client: TorchServeClient) -> None:
    headers: Headers = ((b"cookie", b"a=b"), (b"connection", b"close"), (b"content-type", b"text/plain"))

    answer = await client.predict("echo", b"in", headers)

    body = answer.body.split(b"|Host=")[0]
    assert body == b"in|Accept=*/*|Content-Length=2|Content-Type=application/json"
    assert answer.body.endswith(b"|cookie=a=b")
    returned = tuple(pair for pair in answer.headers if pair[0] not in (b"Date", b"Server"))
    assert Response(answer.body, 201, headers=((b"X-Handler", b"set"),)) == Response(
        answer.body, answer.status, headers=returned
    )


@pytest.mark.parametrize(
    ("model", "kind", "status", "message"),
    [
        ("full", UpstreamError, 507, "torchserve: out of memory"),
        ("busy", UpstreamError, 429, "torchserve: busy"),
        ("slow", UpstreamTimeout, 504, "Model slow did not answer within 0.2 s (--request-timeout)."),
        ("cut", UpstreamBroken, 502, "torchserve: the connection broke (Server disconnected)."),
    ],
)
async def test_what_goes_wrong_upstream_has_its_own_status(
    client: TorchServeClient, model: str, kind: type[ServingError], status: int, message: str
) -> None:
    with pytest.raises(kind) as raised:
        await client.predict(model, b"", ())

    assert (raised.value.status, raised.value.message) == (status, message)


async def test_the_versions_of_a_model_are_described(client: TorchServeClient) -> None:
    assert await client.describe("echo") == [version("echo")]
    assert await client.describe("other") == []


@pytest.mark.parametrize(
    ("model", "status", "message"),
    [
        ("dying", 500, "torchserve: Worker died."),
        ("hasty", 504, "Model hasty did not answer within 0 s (responseTimeout); TorchServe restarts its worker."),
    ],
)
async def test_a_worker_killed_for_its_slowness_is_a_timeout(
    client: TorchServeClient, model: str, status: int, message: str
) -> None:
    await client.describe(model)

    with pytest.raises(ServingError) as raised:
        await client.predict(model, b"", ())

    assert (raised.value.status, raised.value.message) == (status, message)


async def test_nobody_there_is_not_ready(unused_tcp_port: int) -> None:
    async with client_of(f"http://127.0.0.1:{unused_tcp_port}") as alone:
        assert await alone.describe("echo") is None
        assert await alone.metrics() == b""
        with pytest.raises(NotReady, match="torchserve: no connection to TorchServe"):
            await alone.predict("echo", b"", ())
