"""Clients that read answers in pieces: when the first comes, and how many come in a second. A word is the letter w."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Self

import uvloop

_END = b"\r\n0\r\n\r\n"
_PIECE = 1 << 16


@dataclass(frozen=True)
class Words:
    """What a number of clients got, each asking again once it was answered."""

    clients: int
    words: int
    seconds: float
    first_ms: tuple[float, ...]  # from each request to its first word

    @property
    def words_per_s(self) -> float:
        return round(self.words / self.seconds, 1)


class Client:
    """One connection, which is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def begin(self, model: str, words: int) -> tuple[float, bytes]:
        """Asks; returns the milliseconds to the first word, and what has come with it."""
        body = str(words).encode()
        head = f"POST /predictions/{model} HTTP/1.1\r\nhost: bench\r\ncontent-type: text/plain\r\n"
        started = time.perf_counter()
        self._writer.write(head.encode() + b"content-length: %d\r\n\r\n%b" % (len(body), body))
        got = b""
        while b"w" not in got.partition(b"\r\n\r\n")[2]:
            got += await self._more()
        first_ms = (time.perf_counter() - started) * 1000
        assert got.startswith(b"HTTP/1.1 200"), got[:200]
        return first_ms, got.partition(b"\r\n\r\n")[2]

    async def ask(self, model: str, words: int) -> float:
        """The milliseconds to the first word; returns after the last. All of them must come."""
        first_ms, got = await self.begin(model, words)
        while not got.endswith(_END):
            got += await self._more()
        assert got.count(b"w") == words, (got.count(b"w"), words)
        return first_ms

    def hang_up(self) -> None:
        self._writer.transport.abort()

    async def _more(self) -> bytes:
        data = await self._reader.read(_PIECE)
        assert data, "the server closed the connection"
        return data


def press(port: int, model: str, clients: int, words: int, seconds: float) -> Words:
    """So many clients for so long; answers that have begun are read to their end."""
    return uvloop.run(_press(port, model, clients, words, seconds))


def after_hanging_up(port: int, model: str, clients: int) -> float:
    """Milliseconds from when all clients of a full batch hang up to the first word of one who comes then."""
    return uvloop.run(_after_hanging_up(port, model, clients))


async def _press(port: int, model: str, clients: int, words: int, seconds: float) -> Words:
    connected = [await Client.connect(port) for _ in range(clients)]
    started, first_ms = time.perf_counter(), list[float]()

    async def work(client: Client) -> None:
        while time.perf_counter() - started < seconds:
            first_ms.append(await client.ask(model, words))

    try:
        await asyncio.gather(*map(work, connected))
    finally:
        for client in connected:
            client.hang_up()
    return Words(clients, words * len(first_ms), time.perf_counter() - started, tuple(first_ms))


async def _after_hanging_up(port: int, model: str, clients: int) -> float:
    leaving = [await Client.connect(port) for _ in range(clients)]
    comes = await Client.connect(port)
    await asyncio.gather(*(client.begin(model, 1_000_000) for client in leaving))
    started = time.perf_counter()
    for client in leaving:
        client.hang_up()
    await comes.ask(model, 2)
    waited = (time.perf_counter() - started) * 1000
    comes.hang_up()
    return waited
