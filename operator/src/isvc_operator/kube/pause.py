"""A pause between requests, which an API server that is overloaded or shutting down asks its clients to make."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from isvc_operator.limits import RETRY_AFTER_SECONDS

log = logging.getLogger(__name__)


class Pause:
    """What all requests of a client wait for. ``clock`` counts seconds, ``random`` returns numbers from 0 to 1."""

    def __init__(
        self,
        clock: Callable[[], float],
        random: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._random = random
        self._sleep = sleep
        self._until = float("-inf")
        self._announced = False

    @property
    def left(self) -> float:
        """The number of seconds that are left; 0 if requests can be sent."""
        return max(0.0, self._until - self._clock())

    def begin(self, seconds: float, why: str) -> None:
        """Let no request out for so many seconds, at most RETRY_AFTER_SECONDS."""
        self._until = max(self._until, self._clock() + min(seconds, RETRY_AFTER_SECONDS))
        if not self._announced:
            log.warning("requests pause, because the API server asks for it: %s", why)
        self._announced = True

    def ended(self) -> None:
        """Note that the API server works on requests again."""
        if self._announced and not self.left:
            log.info("the API server works on requests again")
            self._announced = False

    async def over(self) -> None:
        """Wait until requests can be sent.

        Those that wait go on one after the other, over up to as long again. So one of them meets an API server that
        is still busy, and the others wait on.
        """
        while left := self.left:
            await self._sleep(left + left * self._random())
