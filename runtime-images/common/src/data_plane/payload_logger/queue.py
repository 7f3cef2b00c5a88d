"""The payloads that wait to be sent: bounded in number and in bytes, and never waited for by who adds one."""

from __future__ import annotations

import asyncio

from data_plane.limits import MAX_LOGGED_EVENTS, MAX_LOGGED_PAYLOAD
from data_plane.payload_logger.counts import Drop, PayloadCounts
from data_plane.payload_logger.events import Payload


class PayloadQueue:
    """Holds at most `max_bytes`, also of payloads that are being sent and of responses that are being streamed."""

    def __init__(self, counts: PayloadCounts, max_bytes: int) -> None:
        self.counts = counts
        self._max_bytes = max_bytes
        self._max_size = min(MAX_LOGGED_PAYLOAD, max_bytes)
        self._bytes = 0
        self._number = 0  # waiting, or being sent
        self._waiting: asyncio.Queue[Payload] = asyncio.Queue()
        counts.watch(lambda: self._number, lambda: self._bytes)

    @property
    def waiting(self) -> int:
        """The number of payloads that nobody sends yet."""
        return self._waiting.qsize()

    def hold(self, size: int, held: int = 0) -> Drop | None:
        """Count `size` more bytes of a payload that holds `held`; return why they cannot be held, if so."""
        if held + size > self._max_size:
            return Drop.TOO_LARGE
        if self._bytes + size > self._max_bytes:
            return Drop.QUEUE_FULL
        self._bytes += size
        return None

    def release(self, size: int) -> None:
        """Give up bytes that were held."""
        self._bytes -= size

    def put(self, payload: Payload) -> None:
        """Add a payload whose bytes are held, or drop it."""
        if self._number >= MAX_LOGGED_EVENTS:
            self.release(payload.size)
            self.counts.dropped(payload.kind, Drop.QUEUE_FULL)
            return
        self._number += 1
        self._waiting.put_nowait(payload)

    async def take(self) -> Payload:
        """Return the oldest payload, which is counted until it is `done`."""
        return await self._waiting.get()

    def done(self, payload: Payload) -> None:
        """Forget a payload that was taken."""
        self._number -= 1
        self.release(payload.size)
        self._waiting.task_done()

    async def join(self) -> None:
        """Wait until all payloads are done."""
        await self._waiting.join()

    def drop_all(self) -> None:
        """Drop all payloads that wait."""
        while self.waiting:
            payload = self._waiting.get_nowait()
            self.counts.dropped(payload.kind, Drop.STOPPED)
            self.done(payload)
