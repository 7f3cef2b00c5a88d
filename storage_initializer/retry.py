"""Retries for errors that may pass, with exponential backoff and full jitter."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from storage_initializer.errors import InitializerError
from storage_initializer.limits import MAX_BACKOFF_S

log = logging.getLogger(__name__)

_FIRST_S = 0.25
Result = TypeVar("Result")


@dataclass(frozen=True)
class Retry:
    """``chance`` returns numbers from 0 to 1; ``wait`` gets seconds."""

    attempts: int
    chance: Callable[[], float]
    wait: Callable[[float], object]

    def run(self, action: Callable[[], Result]) -> Result:
        for delay in self._delays():
            try:
                return action()
            except InitializerError as error:
                if not error.may_pass:
                    raise
                log.info("trying again in %.1f s: %s", delay, error)
                self.wait(delay)
        return action()

    def _delays(self) -> Iterator[float]:
        """Yield one delay fewer than attempts. Jitter keeps a hundred pods from retrying at the same moment."""
        for number in range(self.attempts - 1):
            yield min(_FIRST_S * 2**number, MAX_BACKOFF_S) * self.chance()
