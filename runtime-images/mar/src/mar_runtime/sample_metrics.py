"""What handlers reported, summed up over all workers for Prometheus."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from transformer_sdk.handler.frames import Sample

log = logging.getLogger(__name__)

_KINDS = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}


class SampleMetrics:
    """A registry of its own: names are the handlers' to choose, and must not get in the way of the server's."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._metrics: dict[str, Counter | Gauge | Histogram | None] = {}

    def add(self, samples: Iterable[Sample]) -> None:
        """A value that does not fit what a metric of its name was before is left out, with a word in the log."""
        for sample in samples:
            metric = self._metric(sample)
            if metric is None:
                continue
            try:
                child = metric.labels(**{_name(label): value for label, value in sample.labels.items()})
            except ValueError as error:
                log.warning("metric %s was not counted: %s", sample.name, error)
                continue
            match child:
                case Counter():
                    child.inc(sample.value)
                case Gauge():
                    child.set(sample.value)
                case Histogram():
                    child.observe(sample.value)

    async def exposition(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self._registry)

    def _metric(self, sample: Sample) -> Counter | Gauge | Histogram | None:
        if sample.name not in self._metrics:
            labels = [_name(label) for label in sample.labels]
            try:
                metric = _KINDS[sample.kind](
                    _name(sample.name), "Reported by a handler.", labels, registry=self._registry
                )
            except ValueError as error:
                log.warning("metric %s is not counted: %s", sample.name, error)
                metric = None
            self._metrics[sample.name] = metric
        return self._metrics[sample.name]


def _name(text: str) -> str:
    """As Prometheus allows it."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", text)
