"""What handlers reported, summed up over all workers for Prometheus."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

from torchserve_compat.frames import HandlerResult, Sample

log = logging.getLogger(__name__)

_PREDICTION_TIME, _HOST = "PredictionTime", "Hostname"  # by TorchServe's names people have their dashboards
# A Counter would add _total to its name.
_KINDS: Mapping[str, type[Gauge] | type[Histogram]] = {"counter": Gauge, "gauge": Gauge, "histogram": Histogram}


@dataclass(frozen=True)
class _Metric:
    kind: str
    prometheus: Gauge | Histogram


class HandlerMetrics:
    """A registry of its own: names are the handlers' to choose, and must not get in the way of the server's.

    As with TorchServe every value has the host's name, and there is the time that each model took last.
    """

    def __init__(self, host: str | None = None) -> None:
        self._host = host or socket.gethostname()
        self._seconds: dict[str, float] = {}
        self._registry = CollectorRegistry()
        self._metrics: dict[str, _Metric] = {}
        self._refused: set[str] = set()

    def take(self, model: str, result: HandlerResult) -> None:
        """What came with a result of `model`."""
        if result.failure is None:
            self._seconds[model] = result.seconds
        if result.samples:
            self.add(result.samples)

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
        self.add(
            Sample(_PREDICTION_TIME, "gauge", round(seconds * 1000, 2), {"ModelName": model, "Level": "Model"})
            for model, seconds in self._seconds.items()
        )
        return generate_latest(self._registry)

    def _add(self, sample: Sample) -> None:
        """Raises ValueError."""
        name = _name(sample.name)  # two of a handler's names may be one to Prometheus
        labels = {_HOST: self._host, **{_name(label): value for label, value in sample.labels.items()}}
        metric = self._metrics.get(name)
        if metric is None:
            prometheus = _KINDS[sample.kind](name, "Reported by a handler.", list(labels), registry=self._registry)
            metric = self._metrics[name] = _Metric(sample.kind, prometheus)
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
    """As Prometheus allows it."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", text)
