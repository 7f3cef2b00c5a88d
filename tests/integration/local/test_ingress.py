"""The ingress between real sockets: what a caller sends reaches the server, what the server answers comes back."""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web

from isvc_operator.local.container import LOOPBACK
from isvc_operator.local.errors import RunFailed
from isvc_operator.local.ingress import ingress
from isvc_operator.local.routes import Route

HOST = "first.default.example.com"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Ends:
    """A caller's session towards the ingress, and the server behind it, which answers with ``handler``."""

    session: aiohttp.ClientSession
    url: str
    handler: Handler

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return await self.handler(request)


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    ends = Ends()
    runner = web.ServerRunner(web.Server(ends.handle, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    async with (
        ingress([Route(HOST, "/", "first-predictor", runner.addresses[0][1])], 0) as port,
        aiohttp.ClientSession(headers={"Host": HOST}, auto_decompress=False) as ends.session,
    ):
        ends.url = f"http://{LOOPBACK}:{port}"
        yield ends
    await runner.cleanup()


async def test_method_path_headers_and_body_arrive_as_they_were_sent(ends: Ends) -> None:
    async def echo(request: web.Request) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name != "Content-Length"}
        return web.json_response([request.method, request.raw_path, headers, (await request.read()).decode()])

    ends.handler = echo
    sent = {
        "Cookie": "session=abc",
        "Connection": "keep-alive, X-Mine",
        "X-Mine": "hop",
        "TE": "trailers",
        "X-Own": "1",
    }
    skipped = ["Accept", "Accept-Encoding", "Content-Type", "User-Agent"]
    async with ends.session.put(
        f"{ends.url}/v1/m%2Fx:predict?a=%20", data=b"{}", headers=sent, skip_auto_headers=skipped
    ) as answer:
        method, path, headers, body = await answer.json()

    assert (method, path, body) == ("PUT", "/v1/m%2Fx:predict?a=%20", "{}")
    assert headers == {"Host": HOST, "Cookie": "session=abc", "X-Own": "1", "Connection": "close"}


async def test_status_reason_and_headers_of_an_answer_come_back(ends: Ends) -> None:
    async def refuse(request: web.Request) -> web.Response:
        headers = {"X-Own": "1", "Set-Cookie": "a=b", "Content-Encoding": "gzip"}
        return web.Response(status=422, reason="Not Like This", body=b"zipped", headers=headers)

    ends.handler = refuse
    async with ends.session.get(ends.url) as answer:
        body = await answer.read()

    assert (answer.status, answer.reason, body) == (422, "Not Like This", b"zipped")
    assert answer.headers["X-Own"] == "1"
    assert answer.headers["Set-Cookie"] == "a=b"
    assert answer.headers["Content-Encoding"] == "gzip"


async def test_cookies_of_one_caller_are_not_sent_for_another(ends: Ends) -> None:
    async def give_cookie(request: web.Request) -> web.Response:
        return web.Response(text=str(dict(request.cookies)), headers={"Set-Cookie": "session=abc"})

    ends.handler = give_cookie
    async with aiohttp.ClientSession(headers={"Host": HOST}, cookie_jar=aiohttp.DummyCookieJar()) as other:
        for session in (ends.session, other):
            async with session.get(ends.url) as answer:
                assert await answer.text() == "{}"


async def test_a_body_is_passed_on_while_it_comes(ends: Ends) -> None:
    """The answer's second part is sent only when the caller has had the first."""
    has_first = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await has_first.wait()
        await response.write(b"second")
        return response

    ends.handler = stream
    async with ends.session.get(ends.url) as answer:
        assert await answer.content.readany() == b"first"
        has_first.set()
        assert await answer.content.read() == b"second"


async def test_the_answer_to_a_head_request_has_no_body(ends: Ends) -> None:
    async def sized(request: web.Request) -> web.Response:
        return web.Response(body=b"12345")

    ends.handler = sized
    async with ends.session.head(ends.url) as answer:
        assert (answer.status, answer.headers["Content-Length"], await answer.read()) == (200, "5", b"")


async def test_an_answer_that_comes_before_the_whole_body_was_sent_reaches_the_caller(ends: Ends) -> None:
    async def too_large(request: web.Request) -> web.Response:
        return web.json_response({"error": "too large"}, status=413, headers={"Connection": "close"})

    ends.handler = too_large
    async with ends.session.post(ends.url, data=io.BytesIO(b"0" * 20_000_000)) as answer:
        assert (answer.status, await answer.json()) == (413, {"error": "too large"})


async def test_an_unknown_host_is_answered_with_the_hosts_that_there_are(ends: Ends) -> None:
    async with ends.session.get(ends.url, headers={"Host": "other.example.com"}) as answer:
        assert answer.status == 404
        assert await answer.json() == {"error": f"no service answers to the host 'other.example.com'; there is: {HOST}"}


async def test_a_server_that_breaks_off_is_a_bad_gateway(ends: Ends) -> None:
    async def break_off(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    ends.handler = break_off
    async with ends.session.get(ends.url) as answer:
        assert answer.status == 502
        assert (await answer.json())["error"].startswith("first-predictor broke off the request: ")


async def test_an_answer_that_is_cut_short_is_cut_short_for_the_caller_too(ends: Ends) -> None:
    async def cut_short(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"only this")
        assert request.transport is not None
        request.transport.close()
        return response

    ends.handler = cut_short
    async with ends.session.get(ends.url) as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as bound:  # it does not listen
        bound.bind((LOOPBACK, 0))
        route = Route(HOST, "/", "first-predictor", bound.getsockname()[1])
        async with (
            ingress([route], 0) as port,
            aiohttp.ClientSession() as session,
            session.get(f"http://{LOOPBACK}:{port}/", headers={"Host": HOST}) as answer,
        ):
            assert answer.status == 503
            expected = {"error": "first-predictor does not answer; it is starting, or it has ended"}
            assert await answer.json() == expected


async def test_a_port_in_use_is_refused_with_the_flag_to_change_it() -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RunFailed, match=f"port {port} is in use; choose another one: --http-port {port + 1}"):
            async with ingress([], port):
                pass
