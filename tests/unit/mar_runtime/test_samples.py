"""What handlers report by TorchServe's own metrics, as it is taken from them."""

from __future__ import annotations

import threading

import pytest
from ts.metrics.caching_metric import CachingMetric
from ts.metrics.metric_type_enum import MetricTypes

from mar_runtime.metrics.collect import collect_samples, take_samples
from torchserve_compat.frames import Sample


@pytest.fixture(autouse=True)
def _collecting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CachingMetric, "emit_metrics", CachingMetric.emit_metrics)  # put back when the test is over
    collect_samples()
    take_samples()


def test_what_threads_of_a_handler_report_is_taken_with_the_rest() -> None:
    metric = CachingMetric("Queued", "count", [], MetricTypes.GAUGE)
    reporting = threading.Thread(target=metric.add_or_update, args=(2.0, []))
    reporting.start()
    reporting.join()

    assert (take_samples(), take_samples()) == ([Sample("Queued", "gauge", 2.0, {})], [])
