"""Nodes whose kubelet does one thing: return one long line as any log, have logs that go on, or forward ports."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import ssl
import threading
import urllib.parse
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from tests.support.apiserver import ApiServer
from tests.support.object_stores.proxy import Answer, Request, proxy
from tests.support.object_stores.tls import issue

LINE_BYTES = 10_000_000


@contextlib.contextmanager
def fake_kubelet(server: ApiServer, node: str, folder: Path) -> Iterator[list[str]]:
    """A node of this name. The paths that were asked for are appended to the list."""
    asked = list[str]()

    def logs(request: Request) -> Answer:
        asked.append(request.target)
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(request.target).query)
        line = b"x" * min(LINE_BYTES, int(query.get("limitBytes", [str(LINE_BYTES)])[0]))
        return Answer(200, line, {"Content-Type": "text/plain"})

    with proxy(None, logs, issue(folder)) as kubelet, _node(server, node, kubelet.port):
        yield asked


@contextlib.contextmanager
def forwarding_kubelet(server: ApiServer, node: str, folder: Path) -> Iterator[list[str]]:
    """A node of this name, whose pods listen on 127.0.0.1. What was forwarded is appended to the list."""
    context, asked, ready = issue(folder).server_context(), list[str](), queue.Queue[tuple[int, Callable[[], object]]]()
    forwarding = threading.Thread(target=lambda: asyncio.run(_forward_ports(asked, context, ready)))
    forwarding.start()
    port, stop = ready.get(timeout=10)
    try:
        with _node(server, node, port):
            yield asked
    finally:
        stop()
        forwarding.join()


@dataclass
class FakeLog:
    """The log of one instance of a container: its lines with their times, until it ends."""

    lines: list[str] = field(default_factory=list)
    ended: bool = False
    cuts: int = 0  # how often those who read it have lost their connection
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    read: asyncio.Event = field(default_factory=asyncio.Event)

    async def write(self, *texts: str) -> None:
        """The container prints lines."""
        async with self.changed:
            self.lines += [f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z {text}" for text in texts]
            self.changed.notify_all()

    async def cut(self) -> None:
        """The connections of those who read it end, although it goes on."""
        async with self.changed:
            self.cuts += 1
            self.changed.notify_all()

    async def end(self) -> None:
        """The container ends."""
        async with self.changed:
            self.ended = True
            self.changed.notify_all()


@contextlib.asynccontextmanager
async def logging_kubelet(
    server: ApiServer, node: str, folder: Path
) -> AsyncIterator[defaultdict[tuple[str, str], FakeLog]]:
    """A node of this name, and the logs of its containers by pod and container: a restart is another log."""
    context, logs = issue(folder).server_context(), defaultdict[tuple[str, str], FakeLog](FakeLog)

    async def read(request: web.Request) -> web.StreamResponse:
        return await _read_log(request, logs[request.match_info["pod"], request.match_info["container"]])

    application = web.Application()
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", read)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        with _node(server, node, runner.addresses[0][1]):
            yield logs
    finally:
        for log in logs.values():
            await log.end()
        await runner.cleanup()
        await asyncio.sleep(0.1)  # a connection by TLS is closed some turns of the loop later


async def _read_log(request: web.Request, log: FakeLog) -> web.StreamResponse:
    """As a kubelet: the head of the response comes with the first line."""
    response, cuts = web.StreamResponse(), log.cuts
    lines = [line for line in log.lines if line[:19] >= request.query.get("sinceTime", "")[:19]]
    sent, lines = len(log.lines), lines[-int(request.query["tailLines"]) :]
    log.read.set()
    while True:
        if lines and not response.prepared:
            await response.prepare(request)
        for line in lines:
            await response.write(f"{line}\n".encode())
        async with log.changed:
            await log.changed.wait_for(_has_more(log, sent, cuts))
        lines, sent = log.lines[sent:], len(log.lines)
        if not lines:
            return response


def _has_more(log: FakeLog, sent: int, cuts: int) -> Callable[[], bool]:
    return lambda: len(log.lines) > sent or log.ended or log.cuts > cuts


async def _forward_ports(
    asked: list[str], context: ssl.SSLContext, ready: queue.Queue[tuple[int, Callable[[], object]]]
) -> None:
    async def forward(request: web.Request) -> web.WebSocketResponse:
        asked.append(request.path_qs)
        port = int(request.query["port"] if "port" in request.query else request.query["ports"])
        channel = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await channel.prepare(request)
        for number in (0, 1):
            await channel.send_bytes(bytes([number]) + port.to_bytes(2, "little"))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            await channel.send_bytes(b"\x01" + str(error).encode())
            await channel.close()
            return channel
        answering = asyncio.ensure_future(_pass_on(reader, channel))
        async for message in channel:
            writer.write(message.data[1:])
            await writer.drain()
        answering.cancel()
        writer.close()
        return channel

    application, stopped, loop = web.Application(), asyncio.Event(), asyncio.get_running_loop()
    application.router.add_get("/portForward/{namespace}/{pod}", forward)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    ready.put((runner.addresses[0][1], lambda: loop.call_soon_threadsafe(stopped.set)))
    await stopped.wait()
    await runner.cleanup()


async def _pass_on(reader: asyncio.StreamReader, channel: web.WebSocketResponse) -> None:
    while part := await reader.read(65536):
        await channel.send_bytes(b"\x00" + part)
    await channel.close()


@contextlib.contextmanager
def _node(server: ApiServer, name: str, port: int) -> Iterator[None]:
    server.send("POST", "/api/v1/nodes", {"metadata": {"name": name}})
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    try:
        server.send("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, content="application/merge-patch+json")
        yield
    finally:
        server.send("DELETE", f"/api/v1/nodes/{name}")
