"""Takes what a handler reports by `context.metrics` out of TorchServe's metrics. In the handler's process."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

from ts.metrics.caching_metric import CachingMetric

from transformer_sdk.handler.frames import Sample
from transformer_sdk.messages import encodable


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
    labels = _dimensions(encodable(dimensions), [encodable(name) for name in metric.dimension_names])
    _collected.samples.append(Sample(encodable(metric.metric_name), metric.metric_type.value, float(value), labels))


def _dimensions(text: str, names: Sequence[str]) -> dict[str, str]:
    """Of "name:value,name:value"; a value may hold commas and colons."""
    found = re.fullmatch(",".join(f"{re.escape(name)}:(.*?)" for name in names), text, re.DOTALL)
    return dict(zip(names, found.groups(), strict=True)) if found else {}
