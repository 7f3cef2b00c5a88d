"""The charts of a service, in the order of the page: what each shows of the points of its traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Chart:
    """A chart: its lines are fields of `traffic.Point`, with their colors in `assets/app.css`."""

    name: str
    title: str
    unit: str
    lines: Mapping[str, str]
    written: str = "number"
    """How `assets/charts.js` writes a value: a key of its `WRITTEN`."""
    is_optional: bool = False
    """Whether not all servers report it: without a value it is hidden."""


CHARTS = (
    Chart("rate", "Requests", "per second", {"rate": "--part-3"}),
    Chart("latency", "Latency", "", {"p50": "--part-4", "p95": "--part-2", "p99": "--failed"}, written="seconds"),
    Chart("errors", "Errors", "5xx, per second", {"errors": "--failed"}),
    Chart("batch", "Batch size", "instances, on average", {"batch": "--part-5"}),
    Chart("memory", "Memory", "of all pods", {"memory": "--part-1"}, written="bytes", is_optional=True),
)
