"""Rates and percentiles of a service from its pods' metrics in Prometheus' text format. Pure.

The metrics are those of our servers (data_plane/server/metrics.py). Counters of two readings give what happened between
them; a counter that has become smaller has begun anew.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

_INFERENCE = re.compile(r":(predict|explain|infer)$|/(infer|invoke)$|^/(predictions|explanations|invocations)(/|$)")
_MEMORY = ("container_memory_bytes", "process_resident_memory_bytes")
_COUNTED = frozenset(
    ("http_requests_total", "http_request_seconds_bucket", "batch_size_instances_sum", "batch_size_instances_count")
)
_NAMES = (*_MEMORY, *_COUNTED)
_MOST = 1e18  # of anything that a pod counts; what is more, or no number, no chart shows


@dataclass(frozen=True)
class Reading:
    """What a pod has counted since it started: requests by status, by bound of their duration, and batches."""

    requests: Mapping[int, float] = field(default_factory=dict)
    durations: Mapping[float, float] = field(default_factory=dict)  # upper bound in seconds → requests up to it
    batches: float = 0
    instances: float = 0
    memory: float | None = None


@dataclass(frozen=True, kw_only=True)
class Point:
    """A service's traffic at a time (seconds since 1970). Durations are in seconds, None without requests."""

    at: float
    rate: float = 0
    errors: float = 0  # a second
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    batch: float | None = None  # instances, on average
    memory: float | None = None  # bytes of all pods


def reading_of(text: str) -> Reading:
    """Return what the metrics of a pod say; raises ValueError for what is not Prometheus' format."""
    requests, durations = defaultdict[int, float](float), defaultdict[float, float](float)
    other, memory = defaultdict[str, float](float), dict[str, float]()
    # A text may have many other metrics, and to parse one line takes as long as to skip a hundred.
    ours = "\n".join(line for line in text.split("\n") if not line[:1].isalpha() or line.startswith(_NAMES))
    for family in text_string_to_metric_families(ours + "\n"):
        for sample in family.samples:
            name, labels, value = sample.name, sample.labels, float(sample.value)
            if not 0 <= value <= _MOST or (name not in _MEMORY and not _is_counted(name, labels)):
                continue
            if name in _MEMORY:
                memory[name] = value
            elif name == "http_requests_total":
                requests[int(labels.get("status", 0))] += value
            elif name == "http_request_seconds_bucket":
                if (bound := float(labels.get("le", "inf"))) > 0:
                    durations[bound] += value
            else:
                other[name] += value
    used = next((memory[name] for name in _MEMORY if name in memory), None)
    batches, instances = other["batch_size_instances_count"], other["batch_size_instances_sum"]
    return Reading(requests, durations, batches, instances, used)


def _is_counted(name: str, labels: Mapping[str, str]) -> bool:
    return name in _COUNTED and ("route" not in labels or bool(_INFERENCE.search(labels["route"])))


def point(at: float, seconds: float, pods: Iterable[tuple[bool, Reading | None, Reading]]) -> Point:
    """Return the traffic of pods: whether clients send to it, its reading before, and its reading ``seconds`` later."""
    requests, durations = defaultdict[int, float](float), defaultdict[float, float](float)
    batches, instances, memory = 0.0, 0.0, list[float]()
    for is_first, before, after in pods:
        if after.memory is not None:
            memory.append(after.memory)
        if before is None:
            continue
        for status, count in after.requests.items() if is_first else ():
            requests[status] += _since(before.requests.get(status, 0), count)
        for bound, count in after.durations.items() if is_first else ():
            durations[bound] += _since(before.durations.get(bound, 0), count)
        batches += _since(before.batches, after.batches)
        instances += _since(before.instances, after.instances)
    return Point(
        at=at,
        rate=sum(requests.values()) / seconds,
        errors=sum(count for status, count in requests.items() if status >= 500) / seconds,
        p50=quantile(0.5, durations),
        p95=quantile(0.95, durations),
        p99=quantile(0.99, durations),
        batch=instances / batches if batches else None,
        memory=sum(memory) if memory else None,
    )


def _since(before: float, after: float) -> float:
    return after - before if after >= before else after


def quantile(share: float, durations: Mapping[float, float]) -> float | None:
    """Return the quantile of a histogram of cumulative counts, by linear interpolation as in PromQL; None if empty."""
    bounds = sorted(durations)
    total = durations[bounds[-1]] if bounds else 0
    if not total:
        return None
    lower, below = 0.0, 0.0
    for bound in bounds:
        if durations[bound] >= share * total:
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * (share * total - below) / max(durations[bound] - below, 1e-9)
        lower, below = bound, durations[bound]
    return lower
