"""A proxy on loopback that does harm when it is told to; without a server behind it, it is one.

What becomes of a request is decided by a function of it, so that a test says which request fails and how. What is not
harmed passes byte for byte: signatures hold. Each connection carries one request, or the tunnel that CONNECT asks for:
then it is a forward proxy, which leads to its server whatever host it is asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.support.object_stores.tls import Certificate

_CHUNK_BYTES = 64 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Request:
    """What a client asks; names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """Given in the server's place."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """Said in the server's place, byte for byte."""

    content: bytes


@dataclass(frozen=True)
class Endless:
    """Said in the server's place, and after it ``more``, again and again until the client goes."""

    start: bytes
    more: bytes
    every_s: float = 0.0


@dataclass(frozen=True)
class Reset:
    """The connection is reset after so many bytes of the body."""

    after: int = 0


@dataclass(frozen=True)
class Truncate:
    """The connection is closed in an orderly way after so many bytes of the body."""

    after: int = 0


@dataclass(frozen=True)
class Stall:
    """Nothing more comes after so many bytes of the body, until the client gives up."""

    after: int = 0


@dataclass(frozen=True)
class Damage:
    """The byte at this place of the body is another one."""

    at: int = 0


@dataclass(frozen=True)
class Slow:
    """The body comes at this rate, until the event is set."""

    bytes_per_s: int
    until: threading.Event | None = None


@dataclass(frozen=True)
class Without:
    """It passes without these headers of the request."""

    names: frozenset[str]


Action = Answer | Raw | Endless | Reset | Truncate | Stall | Damage | Slow | Without
Decide = Callable[[Request], Action | None]
"""What to do with a request; None lets it pass."""


def harmless(_: Request) -> None:
    """Everything passes."""


def is_object(request: Request) -> bool:
    """A read of an object's content, in S3's, GCS's and plain HTTP's ways; not a listing."""
    return request.method == "GET" and not any(word in request.target for word in ("list-type", "/o?"))


def on(action: Action, numbers: Container[int], of: Callable[[Request], bool] = is_object) -> Decide:
    """``action`` for some, counted from 1, of the requests that ``of`` is true of."""
    count = itertools.count(1)
    return lambda request: action if of(request) and next(count) in numbers else None


class Proxy:
    """A running proxy. ``requests`` are those that came, in order; ``harmed`` those that did not simply pass."""

    def __init__(self, upstream: str | None, decide: Decide) -> None:
        self.requests: list[Request] = []
        self.harmed: list[Request] = []
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()
        self._upstream = urlsplit(upstream) if upstream else None
        self._decide = decide

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def listen(self, certificate: Certificate | None) -> asyncio.Server:
        context = certificate.server_context() if certificate else None
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20, ssl=context)
        self.url = f"http{'s' if context else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    def abort(self) -> None:
        """Whatever is still to be sent: a connection that waits to send it would outlive the proxy."""
        for writer in self._writers:
            # Python 3.11 fails to abort what was closed with data left, and has sent it since. By TLS, what was closed
            # by both sides has no buffer there.
            with contextlib.suppress(AttributeError):
                if writer.transport.get_write_buffer_size() or not writer.is_closing():
                    writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        # Cancelled when the proxy ends, which the streams of Python 3.11 would complain about.
        ended = (OSError, asyncio.IncompleteReadError, asyncio.CancelledError)
        with contextlib.suppress(*ended), contextlib.closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            request = _parse(head)
            body = await reader.readexactly(int(request.headers.get("content-length", 0)))
            request = Request(request.method, request.target, request.headers, body)
            self.requests.append(request)
            action = self._decide(request)
            if action:
                self.harmed.append(request)
            match action:
                case Answer():
                    writer.write(_format(action))
                case Raw(content):
                    writer.write(content)
                case Endless():
                    await _go_on(action, writer)
                case _:
                    await self._forward(head + body, action, reader, writer)
            await writer.drain()

    async def _forward(
        self, request: bytes, action: Action | None, client: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert self._upstream is not None, "this proxy has no server to ask"
        upstream, sender = await asyncio.open_connection(self._upstream.hostname, self._upstream.port, limit=1 << 20)
        self._writers.add(sender)
        with contextlib.closing(sender):
            if request.startswith(b"CONNECT "):
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await asyncio.gather(_relay_to_end(client, sender), _relay_to_end(upstream, writer))
                return
            without = action.names if isinstance(action, Without) else frozenset()
            sender.write(_changed(request, without))
            writer.write(await upstream.readuntil(b"\r\n\r\n"))
            match action:
                case Reset(after) | Truncate(after) | Stall(after):
                    writer.write(await _up_to(after, upstream))
                    await writer.drain()
                    await _end(action, client, writer)
                case Damage(at):
                    writer.write(await _up_to(at, upstream))
                    writer.write(bytes([(await upstream.readexactly(1))[0] ^ 0xFF]))
                    await _relay(upstream, writer)
                case Slow():
                    await _relay(upstream, writer, action)
                case _:
                    await _relay(upstream, writer)


async def _go_on(action: Endless, writer: asyncio.StreamWriter) -> None:
    writer.write(action.start)
    while True:
        await writer.drain()
        await asyncio.sleep(action.every_s)
        writer.write(action.more)


async def _relay(source: asyncio.StreamReader, target: asyncio.StreamWriter, slow: Slow | None = None) -> None:
    """Slow or not, in pieces: twenty a second of a slow one."""
    size = max(1, slow.bytes_per_s // 20) if slow else _CHUNK_BYTES
    while chunk := await source.read(size):
        target.write(chunk)
        await target.drain()
        if slow and not (slow.until and slow.until.is_set()):
            await asyncio.sleep(len(chunk) / slow.bytes_per_s)


async def _relay_to_end(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """The end of either side is the tunnel's."""
    await _relay(source, target)
    target.close()


async def _up_to(count: int, source: asyncio.StreamReader) -> bytes:
    try:
        return await source.readexactly(count)
    except asyncio.IncompleteReadError as error:
        return error.partial


async def _end(action: Reset | Truncate | Stall, client: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if isinstance(action, Stall):
        await client.read()
    elif isinstance(action, Reset):
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        writer.transport.abort()


def _changed(request: bytes, without: Container[str]) -> bytes:
    head, end, body = request.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    kept = [line for line in lines if line.split(b":")[0].decode().lower() not in without]
    return b"\r\n".join([first, b"Connection: close", *kept]) + end + body


def _parse(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines)
    return Request(method, target, {name.lower(): value.strip() for name, value in pairs}, b"")


def _format(answer: Answer) -> bytes:
    headers = {**answer.headers, "Content-Length": str(len(answer.body)), "Connection": "close"}
    lines = [f"HTTP/1.1 {answer.status} {http.HTTPStatus(answer.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + answer.body


@contextlib.contextmanager
def proxy(upstream: str | None, decide: Decide = harmless, certificate: Certificate | None = None) -> Iterator[Proxy]:
    """A proxy before ``upstream`` (``http://host:port``), in a thread of its own for the block.

    It speaks TLS if it has a certificate.
    """
    loop, made = asyncio.new_event_loop(), Proxy(upstream, decide)
    server = loop.run_until_complete(made.listen(certificate))
    thread = threading.Thread(target=loop.run_forever, name="proxy")
    thread.start()
    try:
        yield made
    finally:
        asyncio.run_coroutine_threadsafe(_close(server, made), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _close(server: asyncio.Server, made: Proxy) -> None:
    for listener in server.sockets:
        asyncio.get_running_loop().remove_reader(listener.fileno())
    # An accepted connection has its task in the third turn of the loop. Until then, a closed server would lose it.
    for _ in range(3):
        await asyncio.sleep(0)
    server.close()
    connections = asyncio.all_tasks() - {asyncio.current_task()}
    for task in connections:
        task.cancel()
    await asyncio.gather(*connections, return_exceptions=True)
    made.abort()
    # A connection is closed in the next turn of the loop.
    await asyncio.sleep(0)
