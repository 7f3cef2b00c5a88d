"""The bounds of the ingress: times, connections, sizes, and what it quotes."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from isvc.run.container import LOOPBACK
from isvc.run.endpoints import Endpoints
from isvc.run.ingress import ingress
from isvc.run.routes import IngressRoute
from isvc_operator import limits
from tests.integration.local.ingress.ends import HOST, Ends, as_sent, echo_raw, status_of, talk


async def test_a_body_that_stops_gets_408(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INGRESS_IDLE_SECONDS", 0.05)
    ends.handler = echo_raw

    answer = await talk(ends, as_sent("POST / HTTP/1.1", "Content-Length: 9", body=b"abc"))

    assert answer.startswith(b"HTTP/1.1 408")
    assert answer.endswith(b'{"error": "no more of the body was received for 0.05 s; send it without pauses"}')


async def test_a_head_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INGRESS_IDLE_SECONDS", 0.05)
    async with ingress([], 0) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n")
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    "request_",
    [
        as_sent("GET /" + "x" * 10_000 + " HTTP/1.1"),
        as_sent("GET / HTTP/1.1", "X-Long: " + "x" * 10_000),
        as_sent("GET / HTTP/1.1", *(f"X-{number}: 1" for number in range(200))),
    ],
    ids=["line", "field", "fields"],
)
async def test_a_head_beyond_the_limits_is_refused(ends: Ends, request_: bytes) -> None:
    ends.handler = echo_raw

    assert status_of(await talk(ends, request_)) == 400


async def test_a_client_beyond_the_limit_gets_503_and_the_others_continue(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INGRESS_CONNECTIONS", 2)
    under_way, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        under_way.release()
        await go_on.wait()
        return web.Response()

    ends.handler = wait
    others = [asyncio.create_task(talk(ends, as_sent("GET / HTTP/1.1"))) for _ in range(2)]
    for _ in others:
        await under_way.acquire()

    refused = await talk(ends, b"")
    go_on.set()

    assert refused.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert refused.endswith(b'{"error": "2 connections are open, and no more are accepted; close some"}')
    assert [status_of(await other) for other in others] == [200, 200]


async def test_a_further_connection_replaces_the_one_that_is_idle_for_longest(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INGRESS_CONNECTIONS", 2)
    ends.handler = echo_raw
    port = int(ends.url.rpartition(":")[2])
    (first, to_first), (second, to_second) = [await asyncio.open_connection(LOOPBACK, port) for _ in range(2)]
    for reader, writer in ((second, to_second), (first, to_first)):  # the second is now without one for longer
        writer.write(f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        await reader.readuntil(b", 0]")

    third = await talk(ends, as_sent("GET / HTTP/1.1"))
    of_second = await second.read()
    to_first.write(as_sent("GET / HTTP/1.1"))
    of_first = await first.read()
    for writer in (to_first, to_second):
        writer.close()

    assert (status_of(third), of_second, status_of(of_first)) == (200, b"", 200)


async def test_a_connection_whose_client_does_not_read_is_aborted(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INGRESS_UNREAD_SECONDS", 0.2)
    ended = asyncio.Event()

    async def pour(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(bytes(1 << 20))
        finally:
            ended.set()

    ends.handler = pour
    async with ingress([IngressRoute(HOST, "/", "first-predictor", Endpoints((ends.behind,)))], 0) as port:
        _, writer = await asyncio.open_connection(LOOPBACK, port, limit=1024)
        writer.write(as_sent("GET / HTTP/1.1"))
        async with asyncio.timeout(30):
            await ended.wait()
        writer.close()


async def test_what_a_refusal_quotes_is_short(ends: Ends) -> None:
    async with ends.session.get(ends.url, headers={"Host": "x" * 5000}) as answer:
        assert answer.status == 404
        assert len(await answer.read()) < 400


async def test_what_a_refusal_quotes_is_text(ends: Ends) -> None:
    answer = await talk(ends, as_sent("GET / HTTP/1.1").replace(b"first", b"\xff\xe2\x80\xae"))

    assert status_of(answer) == 404
    assert answer.rpartition(b"\r\n")[2].isascii()
