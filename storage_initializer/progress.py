"""How far a copy is, in lines for a person: one a file while they are few, at most one a second while it lasts."""

from __future__ import annotations

import logging
from collections.abc import Callable

from storage_initializer.backends import SourceFile

log = logging.getLogger(__name__)

Clock = Callable[[], float]
_INTERVAL_S = 1.0
_FEW = 50
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def format_size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"


class Progress:
    def __init__(self, files: int, size: int, clock: Clock) -> None:
        self._files = files
        self._size = size
        self._clock = clock
        self._start = self._last = clock()
        self._copied = 0

    def advance(self, count: int) -> None:
        self._copied += count
        now = self._clock()
        if now - self._last >= _INTERVAL_S:
            self._last = now
            share = 100 * self._copied // max(self._size, 1)
            log.info("%3d %% of %s (%s)", share, format_size(self._size), self._rate(now))

    def finish(self, file: SourceFile) -> None:
        if self._files <= _FEW:
            log.info("copied %s (%s)", file.path, format_size(file.size))

    def summary(self) -> str:
        now = self._clock()
        return (
            f"{self._files} {'file' if self._files == 1 else 'files'}, {format_size(self._size)} "
            f"in {now - self._start:.1f} s ({self._rate(now)})"
        )

    def _rate(self, now: float) -> str:
        return f"{format_size(self._copied / max(now - self._start, 1e-3))}/s"
