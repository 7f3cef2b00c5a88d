"""Metrics of the duration of hooks, with KServe's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram

STAGES = ("preprocess", "predict", "explain", "postprocess")


class HookMetrics:
    """The metrics of all models of a server, with the buckets that KServe has."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._stages = {
            stage: Histogram(f"request_{stage}_seconds", f"Time of {stage}.", ["model_name"], registry=registry)
            for stage in STAGES
        }

    def of_model(self, name: str) -> dict[str, Histogram]:
        return {stage: series.labels(name) for stage, series in self._stages.items()}
