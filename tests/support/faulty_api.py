"""A proxy in front of an API server, which fails as a test says: in its responses, and in how it sends them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.support.apiserver import ApiServer

_OF_A_CONNECTION = ("connection", "content-length", "host", "keep-alive", "transfer-encoding")
_TOO_LARGE = 64 * 1024**2


@dataclass(frozen=True)
class Arrival:
    """A request that arrived."""

    agent: str
    method: str
    path: str


@dataclass(frozen=True)
class Fault:
    """What becomes of a request. With a ``status`` it is refused, and the API server does not get it.

    ``cut``: its response breaks off in the middle. ``delay``: seconds before it is sent on.
    """

    status: int = 0
    body: str = ""
    retry_after: str = ""
    cut: bool = False
    delay: float = 0.0


# Called with each request; None lets it pass.
Faults = Callable[[Arrival], Fault | None]


@dataclass
class FaultyApi:
    """The proxy; ``faults`` says what fails, and ``arrivals`` has the requests so far."""

    server: ApiServer
    kubeconfig: Path
    faults: Faults = lambda _: None
    arrivals: list[Arrival] = field(default_factory=list)

    @contextlib.contextmanager
    def failing(self, faults: Faults) -> Iterator[None]:
        """Let requests fail in this block."""
        self.faults = faults
        try:
            yield
        finally:
            self.faults = lambda _: None

    async def answer(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        arrival = Arrival(request.headers.get("User-Agent", ""), request.method, request.path_qs)
        body = await request.read()
        self.arrivals.append(arrival)
        fault = self.faults(arrival) or Fault()
        if fault.status:
            headers = {"Retry-After": fault.retry_after} if fault.retry_after else {}
            kind = "application/json" if fault.body.startswith("{") else "text/plain"
            return web.Response(status=fault.status, text=fault.body, headers=headers, content_type=kind)
        await asyncio.sleep(fault.delay)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OF_A_CONNECTION}
        async with session.request(
            request.method, f"{self.server.base_url}{request.raw_path}", headers=headers, data=body or None
        ) as upstream:
            kept = {name: value for name, value in upstream.headers.items() if name.lower() not in _OF_A_CONNECTION}
            response = web.StreamResponse(status=upstream.status, headers=kept)
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                await response.write(chunk[: len(chunk) // 2] if fault.cut else chunk)
                if fault.cut:
                    assert request.transport is not None
                    request.transport.abort()
                    return response
            await response.write_eof()
            return response


def refused(status: int, message: str, retry_after: str = "") -> Fault:
    """What the API server itself would say of one request."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status}
    return Fault(status, json.dumps(body), retry_after)


def kubeconfig_of(server: str, folder: Path) -> Path:
    """Write a kubeconfig for a server at this URL."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "x", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "x", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


@contextlib.contextmanager
def faulty(server: ApiServer, folder: Path) -> Iterator[FaultyApi]:
    """Run the proxy in a thread, with a kubeconfig in ``folder`` for its clients."""
    api = FaultyApi(server, folder / "kubeconfig-of-proxy")
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with _serving(api) as port:
            config = json.loads(server.kubeconfig.read_text())
            config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}"}
            api.kubeconfig.write_text(json.dumps(config))
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert started.wait(10.0)
        yield api
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@contextlib.asynccontextmanager
async def _serving(api: FaultyApi) -> AsyncIterator[int]:
    context = ssl.create_default_context(cafile=str(api.server.ca_file))
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(
        connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout()
    ) as session:
        app = web.Application(client_max_size=_TOO_LARGE)

        async def handle(request: web.Request) -> web.StreamResponse:
            return await api.answer(request, session)

        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()
