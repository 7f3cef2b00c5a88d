"""Counts what becomes of the payloads: each is delivered, dropped before it was sent, or failed at the sink."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from data_plane.payload_logger.events import PayloadKind


class Drop(Enum):
    """Why a payload was not sent."""

    QUEUE_FULL = "queue_full"
    TOO_LARGE = "too_large"
    STOPPED = "stopped"  # the server ended first


class SinkFailure(Enum):
    """Why the sink did not take a payload."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    BROKEN = "broken"
    STATUS_3XX = "status_3xx"
    STATUS_4XX = "status_4xx"
    STATUS_5XX = "status_5xx"


@dataclass(slots=True)
class Counts:
    """The counts of one payload logger. `events` and `bytes` are those in memory."""

    delivered: Counter[PayloadKind] = field(default_factory=Counter)
    dropped: Counter[tuple[PayloadKind, Drop]] = field(default_factory=Counter)
    failed: Counter[tuple[PayloadKind, SinkFailure]] = field(default_factory=Counter)
    events: int = 0
    bytes: int = 0

    def lost(self) -> Counter[str]:
        """Return the numbers of payloads that were not delivered, by reason."""
        lost: Counter[str] = Counter()
        for (_, reason), number in chain(self.dropped.items(), self.failed.items()):
            lost[reason.value] += number
        return lost


class CountsCollector(Collector):
    """The counts as Prometheus' metrics."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def describe(self) -> Iterable[Metric]:
        """Return the families for the registry's check for duplicate names."""
        return self.collect()

    def collect(self) -> Iterable[Metric]:
        """Return the current numbers."""
        counts = self._counts
        delivered = CounterMetricFamily(
            "payload_logger_delivered", "Payloads that the sink has taken.", labels=["type"]
        )
        for kind, number in counts.delivered.items():
            delivered.add_metric([kind.value], number)
        dropped = CounterMetricFamily(
            "payload_logger_dropped", "Payloads that were not sent.", labels=["type", "reason"]
        )
        for (kind, drop), number in counts.dropped.items():
            dropped.add_metric([kind.value, drop.value], number)
        failed = CounterMetricFamily(
            "payload_logger_failed", "Payloads that the sink did not take.", labels=["type", "reason"]
        )
        for (kind, failure), number in counts.failed.items():
            failed.add_metric([kind.value, failure.value], number)
        events = GaugeMetricFamily("payload_logger_queued", "Payloads that wait or are being sent.", counts.events)
        size = GaugeMetricFamily("payload_logger_queued_bytes", "Bytes that payloads hold in memory.", counts.bytes)
        return [delivered, dropped, failed, events, size]
