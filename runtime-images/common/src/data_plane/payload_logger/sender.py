"""Sends payloads to the sink: over few connections, each with a timeout, and again after errors that may pass."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, NamedTuple

from data_plane.client.address import split
from data_plane.client.errors import PredictorBroken, PredictorTimeout, PredictorUnreachable
from data_plane.client.http import HttpClient
from data_plane.limits import LOG_ATTEMPTS, LOG_SENDERS, LOG_TIMEOUT
from data_plane.payload_logger.events import EventWriter, Payload
from data_plane.payload_logger.queue import PayloadQueue
from data_plane.tasks import cancel

_FIRST_PAUSE_S = 0.25
_TOO_MANY: Final = 429


class _Problem(NamedTuple):
    failure: str
    text: str
    may_pass: bool = True


class Sender:
    """Takes payloads from the queue and posts them, until it is closed. Used by one event loop."""

    def __init__(self, queue: PayloadQueue, http: HttpClient, *, url: str, writer: EventWriter) -> None:
        self._queue = queue
        self._http = http
        self._server, self._path = split(url)
        self._writer = writer
        self._closing = asyncio.Event()
        self._tasks = [asyncio.ensure_future(self._run()) for _ in range(LOG_SENDERS)]

    async def close(self, timeout_s: float) -> None:
        """Send what waits, once each; after `timeout_s`, drop the rest."""
        waiting = self._queue.waiting
        self._closing.set()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(waiting.join(), timeout_s)
        await cancel(*self._tasks)
        while not waiting.empty():
            payload = waiting.get_nowait()
            self._queue.dropped(payload.kind, "stopped")
            self._queue.done(payload)
        await self._http.close()

    async def _run(self) -> None:
        while True:
            payload = await self._queue.waiting.get()
            try:
                await self._deliver(payload)
            except asyncio.CancelledError:
                self._queue.dropped(payload.kind, "stopped")
                raise
            finally:
                self._queue.done(payload)
            self._queue.log_losses()

    async def _deliver(self, payload: Payload) -> None:
        headers, body = self._writer.headers(payload), b"".join(payload.pieces)
        pause_s = _FIRST_PAUSE_S
        for attempts_left in reversed(range(LOG_ATTEMPTS)):
            problem = await self._post(headers, body)
            if problem is None:
                self._queue.delivered(payload.kind)
                return
            if not (problem.may_pass and attempts_left) or self._closing.is_set():
                self._queue.failed(payload.kind, problem.failure, problem.text)
                return
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause_s)
            pause_s *= 2

    async def _post(self, headers: list[tuple[str, str]], body: bytes) -> _Problem | None:
        try:
            status = (await self._http.send("POST", self._server, self._path, headers, body, LOG_TIMEOUT)).status
        except PredictorUnreachable as error:
            return _Problem("unreachable", error.reason)
        except PredictorTimeout:
            return _Problem("timeout", f"it sent no response within {LOG_TIMEOUT} s", may_pass=False)
        except PredictorBroken as error:
            return _Problem("broken", error.reason)
        if status < 300:
            return None
        failure = f"status_{min(status // 100, 5)}xx"
        return _Problem(failure, f"it responded with {status}", may_pass=status >= 500 or status == _TOO_MANY)
