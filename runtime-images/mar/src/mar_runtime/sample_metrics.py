"""What handlers reported, summed up over all workers for Prometheus."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

from transformer_sdk.handler.frames import Sample

log = logging.getLogger(__name__)

# A Counter would add _total to its name; by TorchServe's names people have their dashboards.
_KINDS: Mapping[str, type[Gauge] | type[Histogram]] = {"counter": Gauge, "gauge": Gauge, "histogram": Histogram}


@dataclass(frozen=True)
class _Metric:
    kind: str
    prometheus: Gauge | Histogram


class SampleMetrics:
    """A registry of its own: names are the handlers' to choose, and must not get in the way of the server's."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._metrics: dict[str, _Metric] = {}
        self._refused: set[str] = set()

    def add(self, samples: Iterable[Sample]) -> None:
        """A value that does not fit what a metric of its name was before is left out, with one word in the log."""
        for sample in samples:
            try:
                self._add(sample)
            except ValueError as error:
                if sample.name not in self._refused:
                    log.warning("values of metric %s are left out: %s", sample.name, error)
                self._refused.add(sample.name)

    async def exposition(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self._registry)

    def _add(self, sample: Sample) -> None:
        """Raises ValueError."""
        name = _name(sample.name)  # two of a handler's names may be one to Prometheus
        labels = {_name(label): value for label, value in sample.labels.items()}
        metric = self._metrics.get(name)
        if metric is None:
            prometheus = _KINDS[sample.kind](name, "Reported by a handler.", list(labels), registry=self._registry)
            metric = self._metrics[name] = _Metric(sample.kind, prometheus)
        if metric.kind != sample.kind:
            raise ValueError(f"a {metric.kind} cannot become a {sample.kind}")
        child = metric.prometheus.labels(**labels) if labels else metric.prometheus
        if isinstance(child, Histogram):
            child.observe(sample.value)
        elif sample.kind == "counter":
            if sample.value < 0:
                raise ValueError(f"a counter cannot fall by {-sample.value:g}")
            child.inc(sample.value)
        else:
            child.set(sample.value)


def _name(text: str) -> str:
    """As Prometheus allows it."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", text)
