"""The metrics of a queue: sizes and durations of its batches, and how long its oldest request has waited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol
from weakref import WeakSet

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Queue(Protocol):
    @property
    def age_s(self) -> float:
        """How long the oldest waiting request has waited; 0 while none waits."""
        ...


class _Ages(Collector):
    """The ages of all queues, read when the metrics are: nothing is recorded for a request."""

    def __init__(self) -> None:
        self.queues: defaultdict[str, WeakSet[Queue]] = defaultdict(WeakSet)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        text = "Time that the oldest waiting request has waited for the model; 0 while none waits."
        family = GaugeMetricFamily("request_queue_age_seconds", text, labels=["model_name"])
        for model, queues in self.queues.items():
            if ages := [queue.age_s for queue in queues]:
                family.add_metric([model], max(ages))
        return [family]


class BatchMetricsRegistry:
    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, ["model_name"], buckets=buckets, registry=registry)

        def counter(name: str, text: str) -> Counter:
            return Counter(name, text, ["model_name"], registry=registry)

        self.size = histogram("batch_size_instances", "Instances in a batch.", _SIZES)
        self.requests = histogram("batch_size_requests", "Requests in a batch.", _SIZES)
        self.queue = histogram("request_queue_seconds", "Time until the model had room for the request.", _SECONDS)
        self.wait = histogram("request_batch_wait_seconds", "Time until the request's batch was complete.", _SECONDS)
        self.model = histogram("batch_model_seconds", "Time of a batch in the model.", _SECONDS)
        self.transport = histogram(
            "batch_transport_seconds", "Time of a batch on its way to the model and back.", _SECONDS
        )
        self.retried = counter("batches_retried", "Batches that failed and were run one request at a time.")
        self.rejected = counter("requests_rejected", "Requests refused because the queue was full.")
        self.abandoned = counter("requests_abandoned", "Requests dropped because the client had disconnected.")
        self.ages = _Ages()
        registry.register(self.ages)

    def of_model(self, name: str) -> BatchMetrics:
        return BatchMetrics(self, name)


class BatchMetrics:
    """The series of one model, looked up once."""

    def __init__(self, series: BatchMetricsRegistry, model: str) -> None:
        self._size = series.size.labels(model)
        self._requests = series.requests.labels(model)
        self._model = series.model.labels(model)
        self._transport = series.transport.labels(model)
        self._queue = series.queue.labels(model)
        self._wait = series.wait.labels(model)
        self.retried = series.retried.labels(model)
        self.rejected = series.rejected.labels(model)
        self.abandoned = series.abandoned.labels(model)
        self._queues = series.ages.queues[model]

    def report_age_of(self, queue: Queue) -> None:
        """Report the age of a queue of the model for as long as the queue exists."""
        self._queues.add(queue)

    def observe_batch(self, size: int, requests: int, model_s: float, transport_s: float) -> None:
        self._size.observe(size)
        self._requests.observe(requests)
        self._model.observe(model_s)
        self._transport.observe(transport_s)

    def observe_request(self, queue_s: float, wait_s: float) -> None:
        self._queue.observe(queue_s)
        self._wait.observe(wait_s)
