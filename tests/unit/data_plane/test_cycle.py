"""How many writes a response takes, and what they hold. A write is a system call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from data_plane.server.cycle import Cycle

Header = tuple[bytes, bytes]
LARGE = b"a" * 100_000


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True


def cycle(transport: Transport, method: str = "POST", *, keep_alive: bool = True) -> Cycle:
    log = logging.getLogger("test")
    return Cycle(
        {"type": "http", "method": method, "http_version": "1.1", "headers": ()},  # type: ignore[arg-type, typeddict-item]
        transport, FlowControl(transport), log, log, False, [(b"date", b"today")], asyncio.Event(), False, keep_alive,
        lambda: None,
    )  # fmt: skip


async def answer(cycle: Cycle, headers: Iterable[Header], *bodies: bytes) -> None:
    await cycle.send({"type": "http.response.start", "status": 200, "headers": headers})
    for number, body in enumerate(bodies, 1):
        await cycle.send({"type": "http.response.body", "body": body, "more_body": number < len(bodies)})


@pytest.mark.parametrize("body", [b"", b"[4]", LARGE], ids=["empty", "small", "large"])
async def test_a_whole_response_leaves_in_one_write_and_a_large_body_in_one_of_its_own(body: bytes) -> None:
    transport = Transport()
    length = str(len(body)).encode()
    await answer(cycle(transport), [(b"content-length", length), (b"x-kind", b"odd")], body)
    head = b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: %b\r\nx-kind: odd\r\n\r\n" % length
    assert (transport.writes, transport.is_closed) == ([head, body] if body is LARGE else [head + body], False)


async def test_a_response_without_a_length_is_sent_as_it_comes() -> None:
    transport = Transport()
    await answer(cycle(transport), [(b"x-kind", b"odd")], b"first", b"second")
    assert transport.writes == [
        b"HTTP/1.1 200 OK\r\ndate: today\r\nx-kind: odd\r\ntransfer-encoding: chunked\r\n\r\n",
        b"5\r\nfirst\r\n",
        b"6\r\nsecond\r\n0\r\n\r\n",
    ]


async def test_a_response_with_a_length_may_come_in_parts() -> None:
    transport = Transport()
    await answer(cycle(transport), [(b"content-length", b"11")], b"first", b"second")
    assert b"".join(transport.writes) == (b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 11\r\n\r\nfirstsecond")


async def test_the_answer_to_head_is_a_head() -> None:
    transport = Transport()
    await answer(cycle(transport, "HEAD"), [(b"content-length", b"3")], b"[4]")
    assert transport.writes == [b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 3\r\n\r\n"]


@pytest.mark.parametrize(
    ("keep_alive", "headers"),
    [(False, []), (True, [(b"connection", b"close")]), (True, [(b"connection", b"Close")])],
    ids=["the client does", "the response does", "in any case"],
)
async def test_a_connection_that_is_to_end_ends_behind_the_response(keep_alive: bool, headers: list[Header]) -> None:
    transport = Transport()
    await answer(cycle(transport, keep_alive=keep_alive), [(b"content-length", b"0"), *headers], b"")
    assert (transport.writes, transport.is_closed) == (
        [b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"],
        True,
    )


@pytest.mark.parametrize("header", [(b"x\r\ny", b"1"), (b"x", b"1\r\nset-cookie: a")], ids=["name", "value"])
async def test_a_header_that_http_cannot_carry_is_an_error_and_the_client_is_told(header: Header) -> None:
    transport = Transport()
    exchange = cycle(transport)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(exchange, [(b"content-length", b"0"), header], b"")

    await exchange.run_asgi(app)
    assert transport.writes[0].startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert b"set-cookie" not in transport.writes[0]


async def test_nothing_is_written_to_a_client_that_is_gone() -> None:
    transport = Transport()
    exchange = cycle(transport)
    exchange.disconnected = True
    await answer(exchange, [(b"content-length", b"3")], b"[4]")
    assert transport.writes == []
