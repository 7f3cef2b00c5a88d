"""Serves /healthz, /readyz and /metrics on one port. Requests are not logged: a probe comes every few seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from isvc_operator.errors import ConfigError
from isvc_operator.telemetry.metrics import Metrics
from isvc_operator.telemetry.snapshot import Snapshot, not_alive, not_ready

Take = Callable[[], Snapshot]


@asynccontextmanager
async def serving(port: int | None, metrics: Metrics, *, probed: Take, scraped: Take) -> AsyncIterator[None]:
    """Serve on all addresses during the block, or nothing without a port.

    ``probed`` returns the present state for a probe, which comes often; ``scraped`` also counts the services.
    Raises ConfigError if the port is taken.
    """
    if port is None:
        yield
        return
    runner = web.AppRunner(_app(metrics, probed=probed, scraped=scraped), access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, "0.0.0.0", port).start()
        except OSError as error:
            raise ConfigError(f"cannot listen on port {port} ({error}); set --health-port to a free one") from error
        yield
    finally:
        await runner.cleanup()


def _app(metrics: Metrics, *, probed: Take, scraped: Take) -> web.Application:
    async def healthz(_: web.Request) -> web.Response:
        return _probe(not_alive(probed()))

    async def readyz(_: web.Request) -> web.Response:
        return _probe(not_ready(probed()))

    async def exposition(_: web.Request) -> web.Response:
        text = await asyncio.to_thread(metrics.exposition, scraped())  # of thousands of services, it takes a while
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", exposition)])
    return app


def _probe(problems: list[str]) -> web.Response:
    """Return 200, or 503 with a problem a line: the kubelet shows them in the Events of the operator's pod."""
    return web.Response(status=503 if problems else 200, text="\n".join(problems or ["ok"]) + "\n")
