"""Rates and percentiles from the metrics of pods."""

from __future__ import annotations

import math
from dataclasses import fields

import pytest

from data_plane.server.metrics import ServerMetrics
from isvc.dashboard.charts import CHARTS
from isvc.dashboard.traffic import Point, Reading, point, quantile, reading_of


def a_server(*answered: tuple[str, int, float]) -> str:
    """The metrics of a server that has answered these: route, status, seconds."""
    metrics = ServerMetrics()
    for route, status, seconds in answered:
        metrics.observe("POST", route, status, seconds)
    batches = metrics.batches.of_model("bert")
    batches.observe_batch(6, 3, 0.01, 0.001)
    batches.observe_batch(2, 1, 0.01, 0.001)
    return metrics.exposition().decode()


def test_requests_for_predictions_are_counted_and_others_are_not() -> None:
    reading = reading_of(
        a_server(
            ("/v1/models/{model}:predict", 200, 0.02),
            ("/v2/models/{model}/infer", 500, 0.02),
            ("/predictions/{model}", 200, 0.02),
            ("/v2/health/ready", 200, 0.02),
            ("/v1/models", 200, 0.02),
        )
    )

    assert (reading.requests, reading.durations[math.inf]) == ({200: 2, 500: 1}, 3)
    assert (reading.batches, reading.instances) == (2, 8)


def test_metrics_of_another_server_say_nothing() -> None:
    assert reading_of("# TYPE python_info gauge\npython_info 1.0\n") == Reading()


@pytest.mark.parametrize("text", ["}{", "http_requests_total{b=", 'http_requests_total{status="x"} 1\n'])
def test_what_is_no_metric_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of whatever kind
        reading_of(text)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "1e300"])
def test_what_no_chart_shows_is_left_out(value: str) -> None:
    text = "\n".join(
        [
            f"process_resident_memory_bytes {value}",
            f'http_requests_total{{route="/predictions",status="200"}} {value}',
            f'http_request_seconds_bucket{{route="/predictions",le="1.0"}} {value}',
            'http_request_seconds_bucket{route="/predictions",le="NaN"} 1',
            f"batch_size_instances_count {value}",
        ]
    )

    found = reading_of(text + "\n")

    assert (found.memory, sum(found.requests.values()), sum(found.durations.values()), found.batches) == (None, 0, 0, 0)


def test_a_point_is_what_happened_between_two_readings() -> None:
    before = Reading({200: 10}, {0.1: 10, 1.0: 10, math.inf: 10}, batches=5, instances=10, memory=100)
    after = Reading({200: 28, 500: 2}, {0.1: 20, 1.0: 30, math.inf: 30}, batches=10, instances=30, memory=120)
    other = Reading({200: 4}, {0.1: 4, 1.0: 4, math.inf: 4}, memory=80)

    assert point(7.0, 5.0, [(True, before, after), (True, None, other)]) == Point(
        at=7.0, rate=4.0, errors=0.4, p50=0.1, p95=pytest.approx(0.91), p99=pytest.approx(0.982), batch=4.0, memory=200
    )


def test_a_server_that_has_begun_anew_counts_from_nothing() -> None:
    before, after = Reading({200: 1000}, {math.inf: 1000}), Reading({200: 5}, {math.inf: 5})

    assert point(0, 5.0, [(True, before, after)]).rate == 1.0


def test_a_request_is_counted_where_it_arrives_first_and_its_batch_in_the_predictor() -> None:
    transformer = Reading({200: 10}, {0.01: 10, math.inf: 10}, memory=100)
    predictor = Reading({200: 20}, {0.001: 20, math.inf: 20}, batches=5, instances=20, memory=200)
    pods = [(True, Reading(), transformer), (False, Reading(), predictor)]

    assert point(0, 5.0, pods) == Point(
        at=0, rate=2.0, p50=0.005, p95=pytest.approx(0.0095), p99=pytest.approx(0.0099), batch=4.0, memory=300
    )


def test_without_requests_there_are_no_percentiles() -> None:
    assert point(0, 5.0, [(True, Reading(), Reading())]) == Point(at=0)


@pytest.mark.parametrize(
    ("share", "durations", "seconds"),
    [
        (0.5, {}, None),
        (0.5, {0.1: 0, math.inf: 0}, None),
        (0.5, {0.1: 10, math.inf: 10}, 0.05),
        (0.5, {0.1: 0, 0.2: 10, math.inf: 10}, 0.15),
        (0.99, {0.1: 0, math.inf: 10}, 0.1),
    ],
)
def test_a_quantile_is_interpolated_as_prometheus_does(
    share: float, durations: dict[float, float], seconds: float | None
) -> None:
    assert quantile(share, durations) == (None if seconds is None else pytest.approx(seconds))


def test_each_line_of_a_chart_is_a_value_of_a_point() -> None:
    shown = {line for chart in CHARTS for line in chart.lines}

    assert shown == {field.name for field in fields(Point)} - {"at"}
