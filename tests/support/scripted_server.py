"""A server whose connections do what a test says, byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

OK = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 19\r\n\r\n{"predictions":[7]}'

_TURNS = 10  # of the event loop, in which the connections that it has accepted begin; it takes three

Behaviour = Callable[["Visitor"], Awaitable[None]]


@dataclass
class Visitor:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server: ScriptedServer
    number: int

    async def request(self) -> bytes:
        """The next request, whole; raises IncompleteReadError at the end."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        whole = head + await self.reader.readexactly(length)
        self.server.requests.append(whole)
        self.server.asked.set()
        return whole

    async def say(self, text: bytes) -> None:
        self.writer.write(text)
        await self.writer.drain()

    def close(self) -> None:
        """In order: what was said still arrives."""
        self.writer.close()

    def reset(self) -> None:
        """Close so that the other side gets an RST."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@dataclass
class ScriptedServer:
    """What came, and how many connections are open."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    visits: int = 0
    open: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)  # there is a request
    all_closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def scripted(
    behaviour: Behaviour, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedServer]:
    """Each connection does as `behaviour` says, and is closed at its end."""
    server = ScriptedServer()

    visits: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(_visit(Visitor(reader, writer, server, server.visits + 1), behaviour))
        visits[task] = writer
        task.add_done_callback(visits.pop)

    listening = await asyncio.start_server(visit, "127.0.0.1", port, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        for one in listening.sockets:  # a closed server drops those that it has just accepted
            asyncio.get_running_loop().remove_reader(one.fileno())
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        listening.close()
        for task, writer in visits.items():
            task.cancel()
            writer.close()  # also if the task has not begun
        await asyncio.gather(*visits, return_exceptions=True)
        await listening.wait_closed()


async def _visit(visitor: Visitor, behaviour: Behaviour) -> None:
    server = visitor.server
    server.visits += 1
    server.open += 1
    server.all_closed.clear()
    try:
        await behaviour(visitor)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        visitor.writer.close()
        with contextlib.suppress(ConnectionError):
            await visitor.writer.wait_closed()
        server.open -= 1
        if not server.open:
            server.all_closed.set()


async def answers(visitor: Visitor) -> None:
    """As a predictor does."""
    while True:
        await visitor.request()
        await visitor.say(OK)


def says(text: bytes) -> Behaviour:
    """This, to every request; then it hangs up."""

    async def behave(visitor: Visitor) -> None:
        await visitor.request()
        await visitor.say(text)

    return behave


async def never(visitor: Visitor) -> None:
    """Reads the request, and waits for the client to go."""
    await visitor.request()
    await visitor.reader.read()
