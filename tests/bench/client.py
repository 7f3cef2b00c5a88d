"""An HTTP client that reads what it gets: it can check every answer, which neither wrk nor `isvc bench` does."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import httptools
import orjson
import uvloop

from tests.bench.work import Question

_MOST_AT_ONCE = 8  # instances in one request


@dataclass(frozen=True)
class Checked:
    """What came back of many requests, each of which nobody else sent."""

    requests: int
    instances: int
    failed: int
    mismatched: int
    seconds: float


class Connection(asyncio.Protocol):
    """One keep-alive connection, one request at a time."""

    def __init__(self) -> None:
        self._body: list[bytes] = []
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        assert self._answer is not None
        self._answer.set_result((self._parser.get_status_code(), b"".join(self._body)))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("the server closed the connection"))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer; raises ConnectionResetError."""
        self._body.clear()
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        self._transport.close()


def check(port: int, path: str, instances: int, connections: int) -> Checked:
    """Send that many numbered instances, one to eight a request, and look for each number in its own answer."""
    return uvloop.run(_check(port, path, instances, connections))


def repeat(port: int, question: Question, count: int, connections: int) -> None:
    """Ask the same so many times; raises AssertionError for an answer that is no 200."""
    uvloop.run(_repeat(port, question, count, connections))


def request(path: str, body: bytes) -> bytes:
    """The bytes of one POST."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def _check(port: int, path: str, instances: int, connections: int) -> Checked:
    numbers, sizes = iter(range(instances)), itertools.cycle(range(1, _MOST_AT_ONCE + 1))
    requests = failed = mismatched = 0

    async def work(connection: Connection) -> None:
        nonlocal requests, failed, mismatched
        while mine := list(itertools.islice(numbers, next(sizes))):
            body = orjson.dumps({"instances": [{"data": number} for number in mine]})
            status, answer = await connection.ask(request(path, body))
            requests += 1
            if status != 200:
                failed += 1
            elif orjson.loads(answer) != {"predictions": mine}:
                mismatched += 1

    started = time.perf_counter()
    await _on_each(port, connections, work)
    return Checked(requests, instances, failed, mismatched, round(time.perf_counter() - started, 1))


async def _repeat(port: int, question: Question, count: int, connections: int) -> None:
    message, left = request(question.path, question.body), iter(range(count))

    async def work(connection: Connection) -> None:
        for _ in left:
            status, answer = await connection.ask(message)
            assert status == 200, answer

    await _on_each(port, connections, work)


async def _on_each(port: int, connections: int, work: Callable[[Connection], Coroutine[Any, Any, None]]) -> None:
    async with _connections(port, connections) as opened:
        await asyncio.gather(*(work(connection) for connection in opened))


@contextlib.asynccontextmanager
async def _connections(port: int, count: int) -> AsyncIterator[list[Connection]]:
    loop = asyncio.get_running_loop()
    opened = [(await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(count)]
    try:
        yield opened
    finally:
        for connection in opened:
            connection.close()
