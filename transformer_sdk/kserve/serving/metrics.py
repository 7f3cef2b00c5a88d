"""How long hooks take, under the names that KServe's metrics have."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client import Histogram as PrometheusHistogram

from data_plane.histogram import Histogram, Series

# KServe's own.
_BUCKETS = PrometheusHistogram.DEFAULT_BUCKETS[:-1]
STAGES = ("preprocess", "predict", "explain", "postprocess")


class HookMetrics:
    """The series of all models of a server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._stages = {
            stage: Histogram(f"request_{stage}_seconds", f"Time of {stage}.", "model_name", _BUCKETS, registry)
            for stage in STAGES
        }

    def of_model(self, name: str) -> dict[str, Series]:
        """The series of one model, by stage."""
        return {stage: series.labels(name) for stage, series in self._stages.items()}
