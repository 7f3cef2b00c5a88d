"""Counts what becomes of the payloads, and logs the losses: at most one line a minute."""

from __future__ import annotations

import logging
import time
from collections import Counter as Numbers
from collections.abc import Callable
from enum import Enum

from prometheus_client import CollectorRegistry, Counter, Gauge

from data_plane.limits import LOG_REPORT_EVERY
from data_plane.log_lines import one_line
from data_plane.payload_logger.events import PayloadKind

log = logging.getLogger(__name__)


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


class PayloadCounts:
    """The metrics of one payload logger, and its log lines; each payload is delivered, dropped or failed."""

    def __init__(self, registry: CollectorRegistry, sink: str) -> None:
        self._delivered = Counter(
            "payload_logger_delivered", "Payloads that the sink has taken.", ["type"], registry=registry
        )
        self._dropped = Counter(
            "payload_logger_dropped", "Payloads that were not sent.", ["type", "reason"], registry=registry
        )
        self._failed = Counter(
            "payload_logger_failed", "Payloads that the sink did not take.", ["type", "reason"], registry=registry
        )
        self._queued = Gauge("payload_logger_queued", "Payloads that wait or are being sent.", registry=registry)
        self._bytes = Gauge("payload_logger_queued_bytes", "Bytes that payloads hold in memory.", registry=registry)
        self._sink = one_line(sink)
        self._lost: Numbers[str] = Numbers()  # since the last line
        self._next_line = 0.0
        self._problem = ""

    def watch(self, number: Callable[[], float], size: Callable[[], float]) -> None:
        """Read the number of payloads and their bytes from now on."""
        self._queued.set_function(number)
        self._bytes.set_function(size)

    def delivered(self, kind: PayloadKind) -> None:
        """Count a payload that the sink has taken."""
        self._delivered.labels(kind.value).inc()

    def dropped(self, kind: PayloadKind, why: Drop) -> None:
        """Count a payload that is not sent."""
        self._dropped.labels(kind.value, why.value).inc()
        self._lost[why.value] += 1

    def failed(self, kind: PayloadKind, why: SinkFailure, problem: str) -> None:
        """Count a payload that the sink did not take."""
        self._failed.labels(kind.value, why.value).inc()
        self._lost[why.value] += 1
        self._problem = f"; its last problem: {problem}"

    def log_if_due(self) -> None:
        """Log the losses if there are any, and the last line is old enough."""
        if time.monotonic() >= self._next_line:
            self.log()

    def log(self) -> None:
        """Log the losses since the last line, by reason, if there are any."""
        if not self._lost:
            return
        numbers = ", ".join(f"{reason} {number}" for reason, number in sorted(self._lost.items()))
        log.warning("payloads were not delivered to %s: %s%s", self._sink, numbers, one_line(self._problem))
        self._lost.clear()
        self._next_line = time.monotonic() + LOG_REPORT_EVERY
