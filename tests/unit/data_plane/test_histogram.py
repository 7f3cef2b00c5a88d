"""Our histograms beside prometheus_client's own: the same text for the same values."""

from __future__ import annotations

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from data_plane.histogram import Histogram

_BUCKETS = (0.001, 0.25, 1.0, 60.0)


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", 'b"\n']), st.floats(0, 100) | st.sampled_from((*_BUCKETS, 0, float("inf"))))
    )
)
def test_they_write_what_prometheus_client_writes(observed: list[tuple[str, float]]) -> None:
    registry, theirs = CollectorRegistry(), CollectorRegistry()
    histogram = Histogram("x_seconds", "Time of x.", "model_name", buckets=_BUCKETS, registry=registry)
    peer = prometheus_client.Histogram("x_seconds", "Time of x.", ["model_name"], buckets=_BUCKETS, registry=theirs)
    for label, value in observed:
        histogram.labels(label).observe(value)
        peer.labels(label).observe(value)

    lines = generate_latest(theirs).decode().splitlines()
    assert generate_latest(registry).decode().splitlines() == [
        line for line in lines if "x_seconds_created" not in line
    ]


def test_a_name_is_taken_once_in_a_registry() -> None:
    registry = CollectorRegistry()
    Histogram("x_seconds", "Time of x.", "model_name", buckets=_BUCKETS, registry=registry)

    with pytest.raises(ValueError, match="Duplicated timeseries"):
        Histogram("x_seconds", "Time of x.", "model_name", buckets=_BUCKETS, registry=registry)
