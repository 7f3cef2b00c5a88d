"""Ends watches on which nothing was heard for too long: their connection may have been cut without notice.

Once an object of a kind has changed, the API server sends a bookmark about every minute. Before that it sends nothing,
so that a watch of such a kind may be silent for longer. But when one watch is cut, others are likely to be.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from isvc_operator.kube.errors import KubeError
from isvc_operator.limits import WATCH_IDLE_SECONDS, WATCH_QUIET_SECONDS


class OpenWatch:
    """One open watch, by the time of the event loop."""

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self.has_spoken = False
        self.at = asyncio.get_running_loop().time()
        timeout.reschedule(self.at + WATCH_QUIET_SECONDS)

    def heard(self) -> None:
        """Note that something came."""
        self.has_spoken = True
        self.at = asyncio.get_running_loop().time()
        self._timeout.reschedule(self.at + WATCH_IDLE_SECONDS)

    def end(self) -> None:
        """End the watch now."""
        self._timeout.reschedule(self.at)


class Silence:
    """Knows the watches that are open."""

    def __init__(self) -> None:
        self._open: set[OpenWatch] = set()

    @asynccontextmanager
    async def bounded(self) -> AsyncIterator[OpenWatch]:
        """End the block, with a KubeError, when nothing was heard for too long."""
        watch: OpenWatch | None = None
        try:
            async with asyncio.timeout(None) as timeout:
                watch = OpenWatch(timeout)
                self._open.add(watch)
                yield watch
        except TimeoutError as error:
            raise KubeError(0, "nothing was heard on the watch for too long") from error
        finally:
            if watch is not None:
                self._open.discard(watch)
                if timeout.expired():
                    self._suspect(watch)

    def _suspect(self, silent: OpenWatch) -> None:
        for other in self._open:
            if not other.has_spoken or other.at <= silent.at:
                other.end()
