"""Metrics, which take a while to be read: who asks for them again and again does not stop what else is served."""

from __future__ import annotations

import re

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

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


async def test_a_metric_under_a_name_of_the_servers_is_left_out_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    registry, server = CollectorRegistry(), ServerMetrics()
    server.observe("GET", "/", 200, 0.1)
    Gauge("http_requests_total", "A handler's.", ["ModelName"], registry=registry).labels("m").set(1)
    Gauge("http_request_seconds_count", "A handler's.", registry=registry)
    Histogram("batch_model_seconds", "A handler's, before the server has any.", registry=registry).observe(1)
    Counter("rows", "A handler's.", registry=registry).inc()

    async def read() -> bytes:
        return generate_latest(registry) + generate_latest(REGISTRY)

    endpoints = HealthEndpoints(Models(), server, read)
    request = Request("GET", "/metrics", {}, (), b"", "id")
    for _ in range(2):
        text = bytes((await endpoints.metrics(request)).body).decode()

    types = re.findall("^# TYPE (.*) ", text, re.MULTILINE)
    assert sorted(types) == sorted({*types})
    assert re.findall("^http_requests_total.*", text, re.MULTILINE) == [
        'http_requests_total{method="GET",route="/",status="200"} 1.0'
    ]
    assert "rows_total 1.0\n" in text
    assert text.count("\nprocess_resident_memory_bytes ") == 1
    assert "\nprocess_cpu_seconds_total " in text
    assert sorted(caplog.messages) == [
        f"metric {name} of the model is left out: the server has one of its own; give it another name"
        for name in ("batch_model_seconds", "http_request_seconds", "http_requests")
    ]
