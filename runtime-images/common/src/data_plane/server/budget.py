"""The bound for the bytes of requests and responses that the server holds until the responses are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from data_plane.errors import BuffersFull
from data_plane.limits import MAX_BUFFERED


class ByteBudget:
    """The bytes that all requests of a server, by any protocol, may hold together.

    A single request is always accepted: it has a limit of its own.
    """

    def __init__(self, limit: int = MAX_BUFFERED) -> None:
        self.limit = limit
        self.held = 0
        self.peak = 0  # the largest number held since it was last set to 0
        # Drops the queued requests whose clients have disconnected; called if there is no room for a request.
        self.drop_gone: Callable[[], None] | None = None
        self._unsent = 0  # bytes of responses that clients have not read yet

    def check(self, size: int, of: int = 0) -> None:
        """Raise BuffersFull unless there is room for `size` more bytes of a request that holds `of` already."""
        used = self.held + self._unsent
        if used + size > self.limit and used > of:
            raise BuffersFull(self.limit)

    async def make_room(self, size: int, of: int = 0) -> None:
        """Call `check`; if there is no room, first drop requests whose clients have disconnected."""
        try:
            self.check(size, of)
        except BuffersFull:
            if self.drop_gone is None:
                raise
            self.drop_gone()
            await asyncio.sleep(0)  # their tasks give back what they held
            self.check(size, of)

    def count_unsent(self, size: int) -> None:
        """Change the number of bytes of responses that clients have not read."""
        self._unsent += size
        self.peak = max(self.peak, self.held + self._unsent)


class Held:
    __slots__ = ("_budget", "size")

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self.size = 0

    def add(self, size: int) -> None:
        """Hold `size` more bytes; raises BuffersFull."""
        budget = self._budget
        budget.check(size, self.size)
        budget.held = held = budget.held + size
        if held > budget.peak:
            budget.peak = held
        self.size += size

    async def take(self, size: int) -> None:
        """Call `add`; if there is no room, first drop requests whose clients have disconnected."""
        await self._budget.make_room(size, self.size)
        self.add(size)

    def give_back(self, size: int) -> None:
        self._budget.held -= size
        self.size -= size

    def release(self) -> None:
        self._budget.held -= self.size
        self.size = 0
