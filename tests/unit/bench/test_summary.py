"""Percentiles, the histogram, and the JSON that is printed."""

from __future__ import annotations

from array import array

from isvc.bench.load import LoadPlan, Responses
from isvc.bench.summary import document, histogram

PLAN = LoadPlan(connections=4, seconds=10, requests=1000, timeout=30)


def test_a_percentile_is_a_value_that_was_seen() -> None:
    seen = Responses(latencies=array("d", [0.010, 0.001, 0.004, 0.003, 0.002, 0.005, 0.006, 0.007, 0.009, 0.008]))

    assert document("http://h/", PLAN, seen)["latencyMs"] == {
        "mean": 5.5, "min": 1, "p50": 5, "p75": 8, "p90": 9, "p95": 10, "p99": 10, "p99_9": 10, "max": 10,
    }  # fmt: skip


def test_a_histogram_has_every_value_once_and_no_empty_ends() -> None:
    rows = histogram([0.9, 1.2, 1.2, 6.0, 21.0])

    assert [(round(bound, 6), count) for bound, count in rows] == [
        (1.0, 1), (1.5, 2), (2.2, 0), (3.3, 0), (4.7, 0), (6.8, 1), (10.0, 0), (15.0, 0), (22.0, 1),
    ]  # fmt: skip


def test_the_document_of_nothing_is_whole() -> None:
    empty = document("http://h/", PLAN, Responses())

    assert (empty["responses"], empty["histogram"], empty["responsesPerSecond"]) == (0, [], 0.0)
