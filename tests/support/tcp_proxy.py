"""A proxy between a client and a server that knows bytes only, and can fall silent without closing a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field

_CHUNK = 65536
_FAREWELL = 0.2  # seconds


@dataclass
class TcpProxy:
    """``accepted`` counts connections. While ``silent``, nothing that arrives on any of them is sent on."""

    upstream: int
    port: int = 0
    accepted: int = 0
    silent: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _mute: set[asyncio.StreamWriter] = field(default_factory=set)
    _accepted: list[asyncio.StreamWriter] = field(default_factory=list)
    _serving: list[asyncio.Task[None]] = field(default_factory=list)

    def mute(self) -> None:
        """Fall silent for good on the connections that are open now; new ones work."""
        self._mute |= self._writers

    def close(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()

    async def end(self) -> None:
        """End all connections; nobody listens any more."""
        await asyncio.sleep(_FAREWELL)  # those that were accepted just now begin
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        for writer in self._accepted:
            writer.transport.abort()
        await asyncio.sleep(_FAREWELL)  # those of the client end as well

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin to serve a connection."""
        self.accepted += 1
        self._accepted.append(writer)
        self._serving.append(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError):
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
            self._accepted.append(upstream_writer)
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


@asynccontextmanager
async def proxying(upstream: int) -> AsyncIterator[TcpProxy]:
    """Run a proxy to a port of loopback."""
    proxy = TcpProxy(upstream)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()
