"""What handlers report by TorchServe's own metrics, as it is taken from them."""

from __future__ import annotations

import pytest
from ts.metrics.caching_metric import CachingMetric
from ts.metrics.metric_type_enum import MetricTypes

from mar_runtime.samples import collect_samples, taken
from transformer_sdk.handler.frames import Sample


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"Level": "Model"},
        {"url": "http://a:80/x,y", "Level": "Model"},
        {"Level": "", "words": "one, two:\nthree"},
    ],
)
def test_a_value_keeps_its_dimensions(monkeypatch: pytest.MonkeyPatch, labels: dict[str, str]) -> None:
    monkeypatch.setattr(CachingMetric, "emit_metrics", CachingMetric.emit_metrics)  # put back when the test is over
    collect_samples()
    taken()

    CachingMetric("Took", "ms", list(labels), MetricTypes.GAUGE).add_or_update(1.5, list(labels.values()))

    assert taken() == [Sample("Took", "gauge", 1.5, labels)]
