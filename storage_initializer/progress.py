"""Log lines on the progress of a copy: one for each of a few files, and at most one a second."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock

from model_archive.text import format_size
from storage_initializer.sources import SourceFile

log = logging.getLogger(__name__)

Clock = Callable[[], float]
_INTERVAL_S = 1.0
_FEW = 50


class Progress:
    """Updated by several threads at once."""

    def __init__(self, files: int, size: int, clock: Clock) -> None:
        self._files = files
        self._size = size
        self._clock = clock
        self._start = self._last = clock()
        self._copied = self._resumed = 0
        self._lock = Lock()

    def advance(self, count: int) -> None:
        with self._lock:
            self._copied += count
            now = self._clock()
            if now - self._last < _INTERVAL_S:
                return
            self._last = now
        log.info("%s", self._line(now))

    def resume(self, count: int) -> None:
        """Count bytes of an earlier run: for the percentage, not for the rate."""
        with self._lock:
            self._resumed += count

    def begin_anew(self) -> None:
        """Start again: what has been copied is copied once more."""
        with self._lock:
            self._copied = self._resumed = 0

    def reuse_rest(self) -> None:
        """Count the rest as present already."""
        with self._lock:
            self._resumed = max(0, self._size - self._copied)

    def finish(self, file: SourceFile) -> None:
        if self._files <= _FEW:
            log.info("copied %s (%s)", file.path, format_size(file.size))

    def summary(self) -> str:
        now = self._clock()
        rate = "" if self._resumed and not self._copied else f" ({format_size(self._rate(now))}/s)"
        return (
            f"{self._files} {'file' if self._files == 1 else 'files'}, {format_size(self._copied + self._resumed)} "
            f"in {now - self._start:.1f} s{rate}"
        )

    def _line(self, now: float) -> str:
        rate, arrived = self._rate(now), self._copied + self._resumed
        if not self._size:
            return f"{format_size(arrived)} ({format_size(rate)}/s)"
        left = (self._size - arrived) / max(rate, 1)
        share = 100 * arrived // self._size
        return f"{share:3d} % of {format_size(self._size)} ({format_size(rate)}/s, {left:.0f} s left)"

    def _rate(self, now: float) -> float:
        return self._copied / max(now - self._start, 1e-3)
