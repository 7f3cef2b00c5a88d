"""Histograms for Prometheus that are cheap to observe.

prometheus_client's own take a lock and loop over their buckets in Python, which is slow for seven observations per
request. These belong to one event loop and use bisection; prometheus_client still writes their text.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Series:
    """The observations for one value of the label."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * len(bounds)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value in the bucket of the first bound that is not below it."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def add_to(self, family: HistogramMetricFamily, label: str) -> None:
        """Add cumulative buckets, as Prometheus requires."""
        names = map(floatToGoString, self._bounds)
        family.add_metric([label], list(zip(names, accumulate(self._counts), strict=True)), self._sum)


class Histogram(Collector):
    """One histogram with one label. `buckets` are upper bounds, in ascending order."""

    def __init__(
        self, name: str, text: str, label: str, *, buckets: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._name, self._text, self._label = name, text, label
        self._bounds = (*buckets, math.inf)
        self._series: dict[str, Series] = {}
        registry.register(self)

    def labels(self, value: str) -> Series:
        """Return the series for this value of the label."""
        return self._series.setdefault(value, Series(self._bounds))

    def describe(self) -> Iterable[HistogramMetricFamily]:
        """Return the family for the registry's check for duplicate names."""
        return [self._family()]

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """Return the current values of all series."""
        family = self._family()
        for label, series in self._series.items():
            series.add_to(family, label)
        return [family]

    def _family(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(self._name, self._text, labels=[self._label])
