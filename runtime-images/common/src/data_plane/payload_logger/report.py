"""Log lines about payloads that were not delivered: at most one a minute."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from data_plane.limits import LOG_REPORT_EVERY
from data_plane.log_lines import one_line
from data_plane.payload_logger.counts import Counts

log = logging.getLogger(__name__)


class Report:
    """Writes how many payloads were lost since the last line, by reason."""

    def __init__(self, counts: Counts, sink: str, clock: Callable[[], float]) -> None:
        self._counts = counts
        self._sink = sink
        self._clock = clock
        self._due = clock()
        self._written: Counter[str] = Counter()
        self.last_problem = ""  # of the sink

    def write_if_due(self) -> None:
        """Write a line if payloads were lost, and the last line is old enough."""
        if self._clock() >= self._due:
            self.write()

    def write(self) -> None:
        """Write a line if payloads were lost."""
        lost = self._counts.lost()
        new = lost - self._written
        if not new:
            return
        self._due, self._written = self._clock() + LOG_REPORT_EVERY, lost
        numbers = ", ".join(f"{reason} {number}" for reason, number in sorted(new.items()))
        problem = f"; its last problem: {self.last_problem}" if self.last_problem else ""
        log.warning("payloads were not delivered to %s: %s%s", one_line(self._sink), numbers, one_line(problem))
