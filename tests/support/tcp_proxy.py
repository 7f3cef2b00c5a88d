"""A proxy between a client and a server that knows bytes only, and can fall silent without closing a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field

_CHUNK = 65536
_FAREWELL = 0.5  # seconds


@dataclass
class TcpProxy:
    """``accepted`` counts connections. While ``silent``, nothing that arrives on any of them is sent on."""

    upstream: int
    port: int = 0
    accepted: int = 0
    silent: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _mute: set[asyncio.StreamWriter] = field(default_factory=set)
    _serving: set[asyncio.Task[None] | None] = field(default_factory=set)

    def mute(self) -> None:
        """Fall silent for good on the connections that are open now; new ones work."""
        self._mute |= self._writers

    def close(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()

    async def end(self) -> None:
        """Close all connections, and wait for them to end; nobody listens any more."""
        await _a_few_steps()  # those that were accepted just now begin
        self.close()
        for task in filter(None, self._serving):
            task.cancel()
        await asyncio.gather(*filter(None, self._serving), return_exceptions=True)
        await asyncio.sleep(_FAREWELL)  # those of the client, which says goodbye by TLS, end as well

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._serving.add(asyncio.current_task())
        # A task of a server that was cancelled is an error to asyncio, so that it ends by itself.
        with closing(writer), suppress(OSError, asyncio.CancelledError):
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, upstream_writer))
                group.create_task(self._pass_on(upstream_reader, writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while data := await reader.read(_CHUNK):
                if not self.silent and writer not in self._mute:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            self._mute.discard(writer)
            writer.close()


async def _a_few_steps() -> None:
    """Let the event loop do what is due, and what becomes due by that."""
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def proxying(upstream: int) -> AsyncIterator[TcpProxy]:
    """Run a proxy to a port of loopback."""
    proxy = TcpProxy(upstream)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()
