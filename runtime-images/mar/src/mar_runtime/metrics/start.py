"""Where the time of the server's start went."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

log = logging.getLogger(__name__)


class StartTimes:
    """The seconds of each phase of the start: a metric for each, and one line of the log when the server is ready.

    The first phase begins at `began`, by `clock`, and each other one when the phase before it ends.
    """

    def __init__(
        self, registry: CollectorRegistry, began: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._began = began
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._gauge = Gauge(
            "server_start_seconds", "How long each phase of the server's start took.", ["phase"], registry=registry
        )

    def end(self, phase: str) -> None:
        """Record that a phase has ended."""
        seconds = self._clock() - self._began - sum(self._seconds.values())
        self._seconds[phase] = seconds
        self._gauge.labels(phase).set(round(seconds, 3))

    def report(self) -> None:
        """Write the line: the server is ready."""
        phases = ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in self._seconds.items())
        log.info("ready %.2f s after the start: %s", sum(self._seconds.values()), phases)
