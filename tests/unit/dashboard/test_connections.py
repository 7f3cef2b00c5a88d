"""What strangers can take of the dashboard: so many connections, so little of a body, and for so long."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from yarl import URL

from isvc import limits
from isvc.dashboard.server import shared_dashboard
from tests.support.fake_services import FakeServices
from tests.support.fake_source import FakeSource, Line
from tests.support.ports import unbound_port
from tests.unit.dashboard.test_sign_in import ANN, FakePeople, FakePerson

SERVICE = FakeServices()
PATH = "/services/models/torchserve"
Sent = Callable[[str], Awaitable[asyncio.StreamReader]]
_ENOUGH = 8 * 2**20  # bytes that the two ends of a connection on loopback may hold


class EndlessLog(FakeSource):
    """Whose containers log long lines without an end; ``read`` counts them."""

    read = 0

    async def log(self, *_: Any, **__: Any) -> AsyncGenerator[Line, None]:
        while True:
            self.read += 1
            yield None, "x" * limits.LOG_LINE_CHARACTERS
            await asyncio.sleep(0)


@pytest.fixture
def source() -> EndlessLog:
    return EndlessLog(SERVICE.ready())


@pytest.fixture
async def url(source: EndlessLog) -> AsyncIterator[URL]:
    """A dashboard in a cluster, where anybody may connect."""
    port = unbound_port()
    origins = [f"http://127.0.0.1:{port}"]
    people = FakePeople({ANN: FakePerson("ann", source, {"models"})})
    async with shared_dashboard(source, people, port=port, origins=origins, where="a cluster"):
        yield URL(origins[0])


@pytest.fixture
async def sent(url: URL) -> AsyncIterator[Sent]:
    """Sends a text on a new connection, and nothing more."""
    writers = []

    async def send(text: str) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writers.append(writer)
        writer.write(text.encode())
        return reader

    yield send
    for writer in writers:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def a_post(url: URL, path: str, *, size: int, body: str, **headers: str) -> str:
    given = {"Host": url.authority, "Origin": str(url), "Content-Length": str(size), **headers}
    given["Content-Type"] = "application/x-www-form-urlencoded"
    return "\r\n".join([f"POST {path} HTTP/1.1", *(f"{name}: {text}" for name, text in given.items()), "", body])


async def test_of_a_form_that_anybody_may_send_little_is_read(url: URL, sent: Sent) -> None:
    begun = "token=" + "x" * 2 * limits.DASHBOARD_TOKEN_BYTES

    reader = await sent(a_post(url, "/sign-in", size=limits.DASHBOARD_REQUEST_BYTES, body=begun))

    assert (await reader.readline()).startswith(b"HTTP/1.1 401")


async def test_a_body_that_does_not_arrive_is_given_up(url: URL, sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_BODY_SECONDS", 0.05)

    reader = await sent(a_post(url, "/sign-in", size=100, body="token="))

    assert (await reader.readline()).startswith(b"HTTP/1.1 408")


async def test_a_connection_without_a_request_is_closed(url: URL, sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_HEAD_SECONDS", 0.05)

    for begun in ("", "GET / HTTP/1.1\r\nHost: x\r\nX-"):
        reader = await sent(begun)
        assert await reader.read() == b""


async def test_a_stream_is_not_taken_for_a_connection_without_a_request(
    url: URL, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_HEAD_SECONDS", 1.0)  # in which a busy machine reads the head
    get = f"GET /events HTTP/1.1\r\nHost: {url.authority}\r\nAuthorization: Bearer {ANN}\r\n\r\n"
    reader = await sent(get)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")

    await asyncio.sleep(1.1)

    assert not reader.at_eof()


async def test_beyond_so_many_connections_the_next_is_closed(
    url: URL, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_CONNECTIONS", 2)
    get = f"GET /healthz HTTP/1.1\r\nHost: {url.authority}\r\n\r\n"
    kept = [await sent(get) for _ in range(2)]
    assert [await reader.readline() for reader in kept] == [b"HTTP/1.1 200 OK\r\n"] * 2

    refused = await sent("")

    assert await refused.read() == b""


async def test_large_requests_are_sent_so_many_at_a_time(url: URL, sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_REQUESTS_BYTES", limits.DASHBOARD_REQUEST_BYTES + 1000)
    authorized = {"Authorization": f"Bearer {ANN}"}
    large = a_post(url, f"{PATH}/request", size=limits.DASHBOARD_REQUEST_BYTES, body="body=", **authorized)
    await sent(large)

    answers = []
    for size in (500, 2000):
        reader = await sent(a_post(url, f"{PATH}/request", size=size, body="body=".ljust(size, "x"), **authorized))
        answers.append(await reader.readline())

    assert answers == [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 503 Service Unavailable\r\n"]


async def test_of_a_log_that_nobody_reads_little_is_kept(url: URL, sent: Sent, source: EndlessLog) -> None:
    (pod,) = SERVICE.ready().pods
    query = f"pod={pod['metadata']['name']}&container=kserve-container"
    with socket.create_connection((url.host or "", url.port or 0)) as connection:
        head = f"GET {PATH}/log?{query} HTTP/1.1\r\nHost: {url.authority}\r\nAuthorization: Bearer {ANN}\r\n\r\n"
        connection.sendall(head.encode())
        read = -1
        while read != source.read:  # until nothing more is taken from the source
            read = source.read
            await asyncio.sleep(0.5)

    assert 0 < read * limits.DASHBOARD_LOG_LINE_BYTES < _ENOUGH + 2 * 2**20
