"""The metrics that handlers report, combined over all workers, for Prometheus."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

from torchserve_compat.frames import HandlerResult, Sample

log = logging.getLogger(__name__)

_PREDICTION_TIME, _HOST = "PredictionTime", "Hostname"  # TorchServe's names, which dashboards use
# A Counter would append _total to the name; `exposition` writes the type.
_KINDS: Mapping[str, type[Gauge] | type[Histogram]] = {"counter": Gauge, "gauge": Gauge, "histogram": Histogram}


@dataclass(frozen=True)
class _ExposedMetric:
    kind: str
    prometheus: Gauge | Histogram


class HandlerMetrics:
    """A separate registry, because handlers choose the names, which may clash with the server's.

    As in TorchServe, every value has the host's name as a label, and each model's last prediction time is a metric.
    """

    def __init__(self, host: str | None = None) -> None:
        self._host = host or socket.gethostname()
        self._seconds: dict[str, float] = {}
        self._registry = CollectorRegistry()
        self._metrics: dict[str, _ExposedMetric] = {}
        self._refused: set[str] = set()

    def take(self, model: str, result: HandlerResult) -> None:
        """Record the samples and the time of a result."""
        if result.failure is None:
            self._seconds[model] = result.seconds
        if result.samples:
            self.add(result.samples)

    def add(self, samples: Iterable[Sample]) -> None:
        """Record samples. A sample that does not fit its metric is dropped, and logged once for each metric."""
        for sample in samples:
            try:
                self._add(sample)
            except ValueError as error:
                if sample.name not in self._refused:
                    log.warning("values of metric %s are dropped: %s", sample.name, error)
                self._refused.add(sample.name)

    async def exposition(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        self.add(
            Sample(_PREDICTION_TIME, "gauge", round(seconds * 1000, 2), {"ModelName": model, "Level": "Model"})
            for model, seconds in self._seconds.items()
        )
        text = generate_latest(self._registry)
        for name in (name for name, metric in self._metrics.items() if metric.kind == "counter"):
            text = text.replace(f"\n# TYPE {name} gauge\n".encode(), f"\n# TYPE {name} counter\n".encode())
        return text

    def _add(self, sample: Sample) -> None:
        """Record a sample; raises ValueError if it does not fit its metric."""
        name = _name(sample.name)  # two names of a handler may map to the same name
        labels = {_HOST: self._host, **{_name(label): value for label, value in sample.labels.items()}}
        metric = self._metrics.get(name)
        if metric is None:
            prometheus = _KINDS[sample.kind](name, "Reported by a handler.", list(labels), registry=self._registry)
            metric = self._metrics[name] = _ExposedMetric(sample.kind, prometheus)
        if metric.kind != sample.kind:
            raise ValueError(f"a {metric.kind} cannot become a {sample.kind}")
        child = metric.prometheus.labels(**labels)
        if isinstance(child, Histogram):
            child.observe(sample.value)
        elif sample.kind == "counter":
            if sample.value < 0:
                raise ValueError(f"a counter cannot fall by {-sample.value:g}")
            child.inc(sample.value)
        else:
            child.set(sample.value)


def _name(text: str) -> str:
    """Return the text with only the characters that Prometheus allows in a name."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", text)
