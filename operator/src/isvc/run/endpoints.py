"""The pods behind a port of a Service, and the forwarding of connections to them: what kube-proxy does."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

from isvc.run.container import LOOPBACK
from isvc.run.http2 import PREFACE, Answers
from isvc.run.log import Wakeup

CLOSING = 3.0  # seconds that connections to a pod have before it is asked to end
_CHUNK = 64 * 1024  # bytes


@dataclass
class Endpoints:
    """The local ports of the ready pods, and how many requests or connections each of them has.

    A connection is no request: it may stay open for ever. It gets a few seconds, like those of a preStop hook. What is
    open then is for the server to close, which it does when it is asked to end and has answered.
    """

    ports: tuple[int, ...] = ()
    changed: Wakeup = field(default_factory=Wakeup)
    _busy: Counter[int] = field(default_factory=Counter)
    _connected: Counter[int] = field(default_factory=Counter)
    _leaving: dict[int, list[Callable[[], None]]] = field(default_factory=dict)
    _freed: Wakeup = field(default_factory=Wakeup)

    def use(self, ports: Iterable[int]) -> None:
        """Send what comes from now on to these ports."""
        self.ports = tuple(ports)
        self.changed.wake()

    @contextmanager
    def one(self, besides: Collection[int] = ()) -> Iterator[int | None]:
        """Yield the port for a request: of those with the fewest the next in turn; None if no other pod is ready."""
        with self._counted(self._busy, besides) as port:
            yield port

    @contextmanager
    def connection(self, leave: Callable[[], None]) -> Iterator[int | None]:
        """Yield the port for a connection, like ``one``; ``leave`` is called when its pod is to end."""
        with self._counted(self._connected) as port:
            if port is None:
                yield None
                return
            leaving = self._leaving.setdefault(port, [])
            leaving.append(leave)
            try:
                yield port
            finally:
                leaving.remove(leave)
                if not leaving:
                    self._leaving.pop(port, None)

    @contextmanager
    def _counted(self, counts: Counter[int], besides: Collection[int] = ()) -> Iterator[int | None]:
        ports = [port for port in self.ports if port not in besides]
        if not ports:
            yield None
            return
        port = min(ports, key=lambda item: self._busy[item] + self._connected[item])
        # Last in turn now.
        self.ports = (*(item for item in self.ports if item != port), port)
        counts[port] += 1
        try:
            yield port
        finally:
            counts[port] -= 1
            if not counts[port]:
                del counts[port]
                self._freed.wake()

    async def until_free(self, port: int) -> None:
        """Return when a port has no request, and its connections had time to be closed.

        Clients of HTTP/2 are asked to: a server that ends cancels calls that reach it just then.
        """
        while port in self._busy:
            await self._freed.wait()
        for leave in self._leaving.get(port, ()):
            leave()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                while port in self._connected:
                    await self._freed.wait()


@asynccontextmanager
async def forwarding(endpoints: Endpoints) -> AsyncIterator[int]:
    """Listen on loopback, and yield the port whose connections go to the ready pods."""
    connections: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_forward(endpoints, reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    # A port that nobody listens to refuses connections; this one is not given to others meanwhile.
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind((LOOPBACK, 0))
        port = held.getsockname()[1]
        listening = asyncio.create_task(_listen(endpoints, accept, port))
        try:
            yield port
        finally:
            listening.cancel()
            for task in connections:
                task.cancel()
            await asyncio.gather(listening, *connections, return_exceptions=True)


async def _listen(
    endpoints: Endpoints, accept: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None], port: int
) -> None:
    """Accept connections while a pod is ready, as a Service refuses them without one; until cancelled."""
    while True:
        while not endpoints.ports:
            await endpoints.changed.wait()
        server = await asyncio.start_server(accept, LOOPBACK, port, reuse_port=True)
        try:
            while endpoints.ports:
                await endpoints.changed.wait()
        finally:
            server.close()


async def _forward(endpoints: Endpoints, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    answers = Answers()
    try:
        with endpoints.connection(lambda: writer.write(answers.leave())) as port:
            if port is None:
                writer.transport.abort()  # the last pod has just gone
                return
            upstream_reader, upstream_writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_ask(reader, upstream_writer, answers))
                    both.create_task(_copy(upstream_reader, writer, answers.passed_on))
            finally:
                upstream_writer.close()
    except* OSError:
        writer.transport.abort()
    finally:
        writer.close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: Answers) -> None:
    first = b""
    with suppress(asyncio.IncompleteReadError):
        while PREFACE.startswith(first) and len(first) < len(PREFACE):
            first += await reader.readexactly(1)
            writer.write(first[-1:])
    answers.is_http2 = first == PREFACE
    await _copy(reader, writer)


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passed_on: Callable[[bytes], bytes] = bytes
) -> None:
    """Copy until the end of one direction, which the other end is told."""
    while data := await reader.read(_CHUNK):
        writer.write(passed_on(data))
        await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.write_eof()
