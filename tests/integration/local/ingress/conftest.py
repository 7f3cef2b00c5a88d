"""The ingress between real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from isvc.run.container import LOOPBACK
from isvc.run.endpoints import Endpoints
from isvc.run.ingress import ingress
from isvc.run.routes import IngressRoute
from tests.integration.local.ingress.ends import HOST, Ends


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    ends = Ends()
    runner = web.ServerRunner(web.Server(ends.handle, access_log=None, auto_decompress=False))
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    ends.behind = runner.addresses[0][1]
    async with (
        ingress([IngressRoute(HOST, "/", "first-predictor", Endpoints((ends.behind,)))], 0) as port,
        aiohttp.ClientSession(headers={"Host": HOST}, auto_decompress=False) as ends.session,
    ):
        ends.url = f"http://{LOOPBACK}:{port}"
        yield ends
    await runner.cleanup()
