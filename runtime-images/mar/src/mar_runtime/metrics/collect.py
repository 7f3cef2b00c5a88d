"""Collects the metrics that a handler reports through `context.metrics`. Runs in the handler's process."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

from ts.metrics.caching_metric import CachingMetric

from data_plane.messages import encodable
from torchserve_compat.frames import Sample

_collected: list[Sample] = []  # from all threads: a handler may start its own
_collecting = threading.Lock()


def collect_samples() -> None:
    """Collect metrics from now on, instead of printing them, as TorchServe's wheel does for its Java process."""
    CachingMetric.emit_metrics = _collect


def take_samples() -> list[Sample]:
    """Return and clear the samples of all handlers in this process."""
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
    """Parse "name:value,name:value"; a value may contain commas and colons."""
    found = re.fullmatch(",".join(f"{re.escape(name)}:(.*?)" for name in names), text, re.DOTALL)
    return dict(zip(names, found.groups(), strict=True)) if found else {}
