"""Takes what a handler reports by `context.metrics` out of TorchServe's metrics. In the handler's process."""

from __future__ import annotations

import threading
from typing import Any

from ts.metrics.caching_metric import CachingMetric

from transformer_sdk.handler.frames import Sample


class _Collected(threading.local):
    """Of one thread: handlers in threads of one process must not get one another's."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []


_collected = _Collected()


def collect_samples() -> None:
    """From now on metrics are collected; TorchServe's wheel would print them for its Java side to read."""
    CachingMetric.emit_metrics = _collect


def taken() -> list[Sample]:
    """What this thread's handler reported since the last time."""
    samples, _collected.samples = _collected.samples, []
    return samples


def _collect(metric: Any, request_id: str, value: float, dimensions: str) -> None:  # noqa: ARG001 - the wheel's signature
    labels = dict(pair.partition(":")[::2] for pair in dimensions.split(",") if pair)
    _collected.samples.append(Sample(metric.metric_name, metric.metric_type.value, float(value), labels))
