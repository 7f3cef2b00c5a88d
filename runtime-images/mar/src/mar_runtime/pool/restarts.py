"""When a worker is started in the place of one that has died, and when that has no point any more. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mar_runtime.limits import MAX_DEATHS, MAX_RESTART_PAUSE, MAX_START_TRIES_TIME, RESTART_GROWTH, RESTART_PAUSE


@dataclass(slots=True)
class Restarts:
    """Of the workers of one model. Each pause is in seconds, and longer than the one before it in a row."""

    clock: Callable[[], float]
    _deaths: int = 0  # in a row
    _restart_at: float = 0.0
    _tries: int = 0  # in a row, for which there was no process
    _trying_since: float = 0.0

    def answered(self) -> None:
        """A worker did what it is there for."""
        self._deaths = 0

    def started(self) -> None:
        """There is a process for a worker."""
        self._tries = 0

    def after_death(self) -> float | None:
        """The pause before the next start; None where the workers died too often. Those that die during a pause have
        died of the same: they are started at its end."""
        now = self.clock()
        if now >= self._restart_at:
            self._deaths += 1
            self._restart_at = now + _pause(self._deaths)
        return None if self._deaths >= MAX_DEATHS else self._restart_at - now

    def after_failed_start(self) -> float | None:
        """The pause after a start for which there was no process; None where that has gone on for too long."""
        now = self.clock()
        if not self._tries:
            self._trying_since = now
        self._tries += 1
        return None if now - self._trying_since >= MAX_START_TRIES_TIME else _pause(self._tries)


def _pause(number: int) -> float:
    # The exponent is bounded as well: no number of tries makes a power that cannot be computed.
    return float(min(MAX_RESTART_PAUSE, RESTART_PAUSE * RESTART_GROWTH ** min(number - 1, 100)))
