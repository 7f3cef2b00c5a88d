"""The operator's port: probes and metrics."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import aiohttp
import pytest

from isvc.run.container import LOOPBACK
from isvc_operator.errors import ConfigError
from isvc_operator.handlers.endpoints import serving
from isvc_operator.telemetry.metrics import Metrics
from isvc_operator.telemetry.snapshot import Phase, QueueState, Snapshot, WatchState
from tests.support.ports import free_port

PODS = WatchState("pods", "/api/v1/pods", listed=True, silent=0.0, starts=1)
WELL = Snapshot(discovered=True, watches=(PODS,), queue=QueueState(waiting=7))
ILL = Snapshot(queue=QueueState(waiting=7, still=1000.0))


def serving_of(port: int | None, snapshot: Snapshot) -> AbstractAsyncContextManager[None]:
    counted = replace(snapshot, services={Phase.READY: 3})
    return serving(port, Metrics(), probed=lambda: snapshot, scraped=lambda: counted)


async def answers(snapshot: Snapshot, *paths: str) -> list[tuple[int, str]]:
    port, found = free_port(), list[tuple[int, str]]()
    async with serving_of(port, snapshot), aiohttp.ClientSession() as session:
        for path in paths:
            async with session.get(f"http://{LOOPBACK}:{port}{path}") as response:
                found.append((response.status, await response.text()))
    return found


async def test_a_probe_of_an_operator_that_is_well_is_answered_with_200() -> None:
    assert await answers(WELL, "/healthz", "/readyz") == [(200, "ok\n")] * 2


async def test_a_probe_is_answered_with_503_and_the_reasons() -> None:
    assert await answers(ILL, "/healthz", "/readyz") == [
        (503, "7 services wait, and for 1000 s no reconcile has begun or ended\n"),
        (503, "the API server has not said yet what there is to watch\n"),
    ]


async def test_the_metrics_are_those_of_the_present_state() -> None:
    ((status, text),) = await answers(WELL, "/metrics")

    assert status == 200
    assert "\nisvc_operator_queue_depth 7.0\n" in text
    assert '\nisvc_operator_services{phase="Ready"} 3.0\n' in text


async def test_requests_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await answers(WELL, "/healthz", "/metrics", "/unknown")

    assert [record.getMessage() for record in caplog.records if record.name.startswith("aiohttp")] == []


async def test_a_port_that_is_taken_is_named() -> None:
    port = free_port()
    async with serving_of(port, WELL):
        with pytest.raises(
            ConfigError, match=rf"^cannot listen on port {port} \(.*\); set --health-port to a free one$"
        ):
            async with serving_of(port, WELL):
                pass


async def test_without_a_port_nothing_is_served() -> None:
    async with serving_of(None, WELL):
        pass
