"""When to restart a worker that died, and when to give up. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mar_runtime.limits import MAX_DEATHS, MAX_RESTART_PAUSE, MAX_START_TRIES_TIME, RESTART_GROWTH, RESTART_PAUSE


@dataclass(slots=True)
class Restarts:
    """The restarts of one model's workers. Pauses are in seconds; each is longer than the previous one in a row."""

    clock: Callable[[], float]
    _deaths: int = 0  # in a row
    _restart_at: float = 0.0
    _tries: int = 0  # in a row, for which no process could be started
    _trying_since: float = 0.0

    def responded(self) -> None:
        """Record that a worker returned a result."""
        self._deaths = 0

    def started(self) -> None:
        """Record that a worker was started."""
        self._tries = 0

    def after_death(self) -> float | None:
        """Return the pause before the next start; None if workers died too often.

        Workers that die during a pause count as one death and start when the pause ends.
        """
        now = self.clock()
        if now >= self._restart_at:
            self._deaths += 1
            self._restart_at = now + _pause(self._deaths)
        return None if self._deaths >= MAX_DEATHS else self._restart_at - now

    def after_failed_start(self) -> float | None:
        """Return the pause after a start for which no process was available; None if that lasts too long."""
        now = self.clock()
        if not self._tries:
            self._trying_since = now
        self._tries += 1
        return None if now - self._trying_since >= MAX_START_TRIES_TIME else _pause(self._tries)


def _pause(number: int) -> float:
    # The exponent is bounded, too, so that the power never overflows.
    return float(min(MAX_RESTART_PAUSE, RESTART_PAUSE * RESTART_GROWTH ** min(number - 1, 100)))
