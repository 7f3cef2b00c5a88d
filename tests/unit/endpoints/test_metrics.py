"""Metrics, which take a while to be read: who asks for them again and again does not stop what else is served."""

from __future__ import annotations

from data_plane.limits import METRICS_PER_SECOND
from data_plane.messages import Request
from data_plane.model import Models
from data_plane.server.endpoints.health import HealthEndpoints
from data_plane.server.metrics import ServerMetrics
from tests.support.fakes import Seconds


async def test_metrics_are_read_so_often_in_a_second_and_are_the_last_ones_beyond_that() -> None:
    clock, readings = Seconds(), iter(range(1000))

    async def read() -> bytes:
        return b"reading %d\n" % next(readings)

    endpoints = HealthEndpoints(Models(), ServerMetrics(), read, clock=clock)
    request = Request("GET", "/metrics", {}, (), b"", "id")

    async def found() -> int:
        return int(bytes((await endpoints.metrics(request)).body).split()[-1])

    assert [await found() for _ in range(METRICS_PER_SECOND + 3)] == [
        *range(METRICS_PER_SECOND),
        *[METRICS_PER_SECOND - 1] * 3,
    ]
    clock.passed += 2 / METRICS_PER_SECOND
    assert [await found() for _ in range(3)] == [METRICS_PER_SECOND, METRICS_PER_SECOND + 1, METRICS_PER_SECOND + 1]
