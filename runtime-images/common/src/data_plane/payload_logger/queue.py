"""The payloads that wait to be sent: bounded in number and in bytes, and counted, whatever becomes of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter as Numbers
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge

from data_plane.limits import LOG_REPORT_EVERY, MAX_LOGGED_EVENTS, MAX_LOGGED_PAYLOAD
from data_plane.log_lines import one_line
from data_plane.payload_logger.events import Payload, PayloadKind

log = logging.getLogger(__name__)


# Why a payload was not sent; stopped: the server ended first.
Drop = Literal["queue_full", "too_large", "stopped"]


class PayloadQueue:
    """Holds at most `max_bytes`, also of payloads that are being sent and of responses that are being streamed.

    Who adds a payload never waits. Each one is delivered, dropped or failed; `sink` is for the log.
    """

    def __init__(self, registry: CollectorRegistry, sink: str, max_bytes: int) -> None:
        self.waiting: asyncio.Queue[Payload] = asyncio.Queue()  # those that nobody sends yet
        self._max_bytes = max_bytes
        self._bytes = 0
        self._number = 0  # waiting, or being sent
        self._delivered = Counter(
            "payload_logger_delivered", "Payloads that the sink has taken.", ["type"], registry=registry
        )
        self._dropped = Counter(
            "payload_logger_dropped", "Payloads that were not sent.", ["type", "reason"], registry=registry
        )
        self._failed = Counter(
            "payload_logger_failed", "Payloads that the sink did not take.", ["type", "reason"], registry=registry
        )
        Gauge("payload_logger_queued", "Payloads that wait or are being sent.", registry=registry).set_function(
            lambda: self._number
        )
        Gauge("payload_logger_queued_bytes", "Bytes that payloads hold in memory.", registry=registry).set_function(
            lambda: self._bytes
        )
        self._sink = one_line(sink)
        self._lost: Numbers[str] = Numbers()  # since the last line of the log
        self._next_line = 0.0
        self._problem = ""

    def hold(self, size: int, held: int) -> Drop | None:
        """Count `size` more bytes of a payload that holds `held`; return why they cannot be held, if so."""
        if held + size > min(MAX_LOGGED_PAYLOAD, self._max_bytes):
            return "too_large"
        if self._bytes + size > self._max_bytes:
            return "queue_full"
        self._bytes += size
        return None

    def release(self, size: int) -> None:
        """Give up bytes that were held."""
        self._bytes -= size

    def put(self, payload: Payload) -> None:
        """Add a payload whose bytes are held, or drop it. One that is taken is counted until it is `done`."""
        if self._number >= MAX_LOGGED_EVENTS:
            self.release(payload.size)
            self.dropped(payload.kind, "queue_full")
            return
        self._number += 1
        self.waiting.put_nowait(payload)

    def done(self, payload: Payload) -> None:
        self._number -= 1
        self.release(payload.size)
        self.waiting.task_done()

    def delivered(self, kind: PayloadKind) -> None:
        self._delivered.labels(kind.value).inc()

    def dropped(self, kind: PayloadKind, why: Drop) -> None:
        self._dropped.labels(kind.value, why).inc()
        self._lost[why] += 1

    def failed(self, kind: PayloadKind, why: str, problem: str) -> None:
        self._failed.labels(kind.value, why).inc()
        self._lost[why] += 1
        self._problem = f"; its last problem: {problem}"

    def log_losses(self, *, at_end: bool = False) -> None:
        """Log the losses since the last line, by reason, if there are any: once a minute, and at the end."""
        if not self._lost or (time.monotonic() < self._next_line and not at_end):
            return
        numbers = ", ".join(f"{reason} {number}" for reason, number in sorted(self._lost.items()))
        log.warning("payloads were not delivered to %s: %s%s", self._sink, numbers, one_line(self._problem))
        self._lost.clear()
        self._next_line = time.monotonic() + LOG_REPORT_EVERY
