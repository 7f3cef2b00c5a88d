"""The payloads that wait to be sent: bounded in number and in bytes, and never waited for by who adds one."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from data_plane.limits import MAX_LOGGED_EVENTS
from data_plane.payload_logger.counts import Counts, Drop
from data_plane.payload_logger.events import Kind, Payload

# Payloads are sent this much later: at once, the sender would compete with the request for the processor.
_DELAY_S: Final = 0.01


class PayloadQueue:
    """Holds at most `max_bytes`, also of payloads that are being sent and of responses that are being streamed.

    A payload may have `max_size` bytes.
    """

    def __init__(self, counts: Counts, max_bytes: int, max_size: int) -> None:
        self._counts = counts
        self._max_bytes = max_bytes
        self._max_size = min(max_size, max_bytes)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._new: deque[Payload] = deque()
        self._passing_on = False
        self._waiting: asyncio.Queue[Payload] = asyncio.Queue()

    def open(self) -> None:
        """Pass payloads on to the running event loop from now on."""
        self._loop = asyncio.get_running_loop()
        self._start_to_pass_on()

    def hold(self, size: int, held: int = 0) -> Drop | None:
        """Count `size` more bytes of a payload that holds `held`; return why they cannot be held, if so."""
        if held + size > self._max_size:
            return Drop.TOO_LARGE
        if self._counts.bytes + size > self._max_bytes:
            return Drop.QUEUE_FULL
        self._counts.bytes += size
        return None

    def release(self, size: int) -> None:
        """Give up bytes that were held."""
        self._counts.bytes -= size

    def drop(self, kind: Kind, why: Drop) -> None:
        """Count a payload that is not sent, and holds nothing."""
        self._counts.dropped[kind, why] += 1

    def put(self, payload: Payload) -> None:
        """Add a payload whose bytes are held, or drop it."""
        if self._counts.events >= MAX_LOGGED_EVENTS:
            self.release(payload.size)
            self.drop(payload.kind, Drop.QUEUE_FULL)
            return
        self._counts.events += 1
        self._new.append(payload)
        if not self._passing_on:
            self._start_to_pass_on()

    async def take(self) -> Payload:
        """Return the oldest payload, which is counted until it is `done`."""
        return await self._waiting.get()

    def done(self, payload: Payload) -> None:
        """Forget a payload that was taken."""
        self._counts.events -= 1
        self.release(payload.size)
        self._waiting.task_done()

    async def join(self) -> None:
        """Wait until all payloads are done."""
        while self._new:
            self._waiting.put_nowait(self._new.popleft())
        await self._waiting.join()

    def drop_all(self) -> None:
        """Drop all payloads that wait."""
        while not self._waiting.empty():
            payload = self._waiting.get_nowait()
            self.drop(payload.kind, Drop.STOPPED)
            self.done(payload)

    def _start_to_pass_on(self) -> None:
        if self._loop and self._new:
            self._passing_on = True
            self._loop.call_later(_DELAY_S, self._pass_on)

    def _pass_on(self) -> None:
        """Pass one payload on, and the next one when the event loop has looked for requests."""
        if self._new:
            self._waiting.put_nowait(self._new.popleft())
        self._passing_on = bool(self._new)
        if self._loop and self._new:
            self._loop.call_soon(self._pass_on)
