"""The operator's port: probes that fail, and a port that is taken (tests/integration has the rest)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import aiohttp
import pytest

from isvc.run.container import LOOPBACK
from isvc_operator.errors import ConfigError
from isvc_operator.handlers.endpoints import serving
from isvc_operator.telemetry.metrics import Metrics
from isvc_operator.telemetry.snapshot import QueueState, Snapshot
from tests.support.ports import free_port

ILL = Snapshot(queue=QueueState(waiting=7, still=1000.0))


def serving_of(port: int | None) -> AbstractAsyncContextManager[None]:
    return serving(port, Metrics(), probed=lambda: ILL, scraped=lambda: ILL)


async def test_a_probe_is_answered_with_503_and_the_reasons() -> None:
    port, found = free_port(), list[tuple[int, str]]()
    async with serving_of(port), aiohttp.ClientSession() as session:
        for path in ("/healthz", "/readyz"):
            async with session.get(f"http://{LOOPBACK}:{port}{path}") as response:
                found.append((response.status, await response.text()))

    assert found == [
        (503, "7 services wait, and for 1000 s no reconcile has begun or ended\n"),
        (503, "the API server has not said yet what there is to watch\n"),
    ]


async def test_a_port_that_is_taken_is_named() -> None:
    port = free_port()
    async with serving_of(port):
        with pytest.raises(
            ConfigError, match=rf"^cannot listen on port {port} \(.*\); set --health-port to a free one$"
        ):
            async with serving_of(port):
                pass


async def test_without_a_port_nothing_is_served() -> None:
    async with serving_of(None):
        pass
