"""Takes what a handler reports by `context.metrics` out of TorchServe's metrics. In the handler's process."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

from ts.metrics.caching_metric import CachingMetric

from data_plane.messages import encodable
from torchserve_compat.frames import Sample

_collected: list[Sample] = []  # by all threads: a handler may have some of its own
_collecting = threading.Lock()


def collect_samples() -> None:
    """From now on metrics are collected; TorchServe's wheel would print them for its Java side to read."""
    CachingMetric.emit_metrics = _collect


def taken() -> list[Sample]:
    """What was reported in this process since the last time, by whichever handler: it says itself whose it is."""
    with _collecting:
        samples = _collected.copy()
        _collected.clear()
    return samples


def _collect(metric: Any, request_id: str, value: float, dimensions: str) -> None:  # noqa: ARG001 - the wheel's signature
    labels = _dimensions(encodable(dimensions), [encodable(name) for name in metric.dimension_names])
    sample = Sample(encodable(metric.metric_name), metric.metric_type.value, float(value), labels)
    with _collecting:
        _collected.append(sample)


def _dimensions(text: str, names: Sequence[str]) -> dict[str, str]:
    """Of "name:value,name:value"; a value may hold commas and colons."""
    found = re.fullmatch(",".join(f"{re.escape(name)}:(.*?)" for name in names), text, re.DOTALL)
    return dict(zip(names, found.groups(), strict=True)) if found else {}
