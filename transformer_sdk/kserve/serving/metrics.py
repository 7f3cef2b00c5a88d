"""Metrics of the duration of hooks, with KServe's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client import Histogram as PrometheusHistogram

from data_plane.histogram import Histogram, Series

# KServe's buckets.
_BUCKETS = PrometheusHistogram.DEFAULT_BUCKETS[:-1]
STAGES = ("preprocess", "predict", "explain", "postprocess")


class HookMetrics:
    """The metrics of all models of a server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._stages = {
            stage: Histogram(
                f"request_{stage}_seconds", f"Time of {stage}.", "model_name", buckets=_BUCKETS, registry=registry
            )
            for stage in STAGES
        }

    def of_model(self, name: str) -> dict[str, Series]:
        """Return the series of one model by stage."""
        return {stage: series.labels(name) for stage, series in self._stages.items()}
