"""The payloads that wait to be sent: bounded in number and in bytes, and never waited for by who adds one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from data_plane.limits import MAX_LOGGED_EVENTS
from data_plane.messages import never
from data_plane.payload_logger.counts import Counts, Drop
from data_plane.payload_logger.events import Payload, PayloadKind

# Payloads are passed on to the senders this much later, and while no request is in progress: at once, the senders
# would compete with the request for the processor.
_DELAY_S: Final = 0.002
# After so many delays they are passed on beside requests.
_MOST_DELAYS: Final = 10


class PayloadQueue:
    """Holds at most `max_bytes`, also of payloads that are being sent and of responses that are being streamed.

    A payload may have `max_size` bytes. `is_busy` returns whether a request is in progress.
    """

    def __init__(self, counts: Counts, max_bytes: int, max_size: int, is_busy: Callable[[], bool] = never) -> None:
        self._counts = counts
        self._max_bytes = max_bytes
        self._max_size = min(max_size, max_bytes)
        self._is_busy = is_busy
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

    def drop(self, kind: PayloadKind, why: Drop) -> None:
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
        self._pass_all_on()
        await self._waiting.join()

    def drop_all(self) -> None:
        """Drop all payloads that wait."""
        self._pass_all_on()
        while not self._waiting.empty():
            payload = self._waiting.get_nowait()
            self.drop(payload.kind, Drop.STOPPED)
            self.done(payload)

    def _start_to_pass_on(self) -> None:
        if self._loop and self._new:
            self._passing_on = True
            self._loop.call_later(_DELAY_S, self._pass_on, _MOST_DELAYS, len(self._new))

    def _pass_on(self, delays_left: int, number: int) -> None:
        """Pass payloads on, the next one when the event loop has looked for requests; `number` even beside those."""
        self._passing_on = bool(self._loop and self._new)
        if not self._loop or not self._new:
            return
        if self._is_busy() and (delays_left or not number):
            left = delays_left - 1 if delays_left else _MOST_DELAYS
            self._loop.call_later(_DELAY_S, self._pass_on, left, len(self._new))
            return
        self._waiting.put_nowait(self._new.popleft())
        self._loop.call_soon(self._pass_on, delays_left, max(number - 1, 0))

    def _pass_all_on(self) -> None:
        while self._new:
            self._waiting.put_nowait(self._new.popleft())
