"""Callers that mean harm, before the ingress of `isvc run`: none gets further than he should, all others are served."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from isvc.run.container import LOOPBACK
from isvc.run.endpoints import Endpoints
from isvc.run.ingress import ingress
from isvc.run.routes import IngressRoute
from isvc_operator import limits

HOST = "first.default.example.com"
REQUESTS = 1000
GOOD = f"POST /good HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok".encode()
PARTS = [
    b"POST /bad HTTP/1.1\r\n", b"GET http://other/ HTTP/1.1\r\n", b"GET @h:1/ HTTP/1.0\r\n",
    b"CONNECT a:1 HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n", b"\x16\x03\x01\x02\x00",
    f"Host: {HOST}\r\n".encode(), b"Host: other\r\n", b"Content-Length: 3\r\n", b"Content-Length: 30\r\n",
    b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding:\tchunked\r\n", b"Connection: close, Host\r\n", b"Connection: keep-alive\r\n",
    b"Expect: 100-continue\r\n", b"Expect: x\r\n", b"Upgrade: h2c\r\n", b"Content-Encoding: gzip\r\n", b"X: \x00\r\n",
    b"X: \xff\xfe\r\n", b"\r\n", b"\n", b"3\r\nabc\r\n", b"0\r\n\r\n", b"ffffffffffffffffff\r\n", b"3;x=\"\r\nabc\r\n",
    b"abc", b"GET /smuggled HTTP/1.1\r\nHost: first.default.example.com\r\n\r\n",
]  # fmt: skip


class Behind:
    """The server behind the ingress, and the requests that it got."""

    port: int
    seen: list[tuple[str, str]]

    async def handle(self, request: web.BaseRequest) -> web.Response:
        self.seen.append((request.host, request.raw_path))
        return web.Response(body=await request.read())


@pytest.fixture
async def behind() -> AsyncIterator[Behind]:
    server = Behind()
    server.seen = []
    runner = web.ServerRunner(web.Server(server.handle, access_log=None, auto_decompress=False))
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    server.port = runner.addresses[0][1]
    yield server
    await runner.cleanup()


async def said(port: int, sent: bytes, *, patience: float) -> bytes:
    """All that the ingress answers, until it closes the connection or nothing comes for so many seconds."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    answer = b""
    try:
        writer.write(sent)
        async with asyncio.timeout(patience):
            while part := await reader.read(65536):
                answer += part
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()
    return answer


async def test_whatever_is_sent_is_answered_once_or_refused(
    behind: Behind, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No request reaches the server behind that was not one for it, and none that stood in the body of another one."""
    monkeypatch.setattr(limits, "INGRESS_IDLE_SECONDS", 0.05)
    monkeypatch.setattr(limits, "INGRESS_LINGER_SECONDS", 0.05)
    search = random.Random(17)
    async with ingress([IngressRoute(HOST, "/", "first-predictor", Endpoints((behind.port,)))], 0) as port:
        for _ in range(REQUESTS // 20):
            sent = [b"".join(search.choices(PARTS, k=search.randint(2, 9))) for _ in range(20)]
            before = len(behind.seen)
            answers = await asyncio.gather(*(said(port, text, patience=2.0) for text in sent))
            statuses = [answer.count(b"HTTP/1.1 200 OK\r\n") for answer in answers]
            reached = behind.seen[before:]
            assert len(reached) >= sum(statuses)
            assert {host for host, _ in reached} <= {HOST}
            assert {path for _, path in reached} <= {"/bad", "/smuggled"}
            assert (await said(port, GOOD, patience=5.0)).endswith(b"\r\n\r\nok")
    assert [record.getMessage() for record in caplog.records if record.name.startswith("isvc_operator")] == []


async def test_while_many_callers_hang_others_are_served(behind: Behind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INGRESS_CONNECTIONS", 100)
    monkeypatch.setattr(limits, "INGRESS_IDLE_SECONDS", 1.0)
    heads = b"GET / HTTP/1.1\r\nHost: ", b"", GOOD[:-1], b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
    async with ingress([IngressRoute(HOST, "/", "first-predictor", Endpoints((behind.port,)))], 0) as port:
        hanging = [asyncio.create_task(said(port, heads[number % 4], patience=20)) for number in range(99)]
        assert (await said(port, GOOD, patience=5.0)).endswith(b"ok")
        answers = await asyncio.gather(*hanging)  # each is ended by the ingress
        assert (await said(port, GOOD, patience=5.0)).endswith(b"ok")
    assert {answer.split(b"\r\n")[0] for answer in answers} <= {b"", b"HTTP/1.1 408 Request Timeout"}
