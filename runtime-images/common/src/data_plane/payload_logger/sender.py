"""Sends payloads to the sink: over few connections, each with a timeout, and again after errors that may pass."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Final

from data_plane.client.errors import PredictorBroken, PredictorTimeout, PredictorUnreachable
from data_plane.client.pool import Pool
from data_plane.limits import LOG_ATTEMPTS, LOG_SENDERS, LOG_TIMEOUT
from data_plane.messages import Headers
from data_plane.payload_logger.counts import Counts, Drop, SinkFailure
from data_plane.payload_logger.events import EventWriter, Payload
from data_plane.payload_logger.queue import PayloadQueue
from data_plane.payload_logger.report import Report
from data_plane.tasks import cancel

_FIRST_PAUSE_S = 0.25
_TOO_MANY: Final = 429


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why an attempt has failed."""

    failure: SinkFailure
    text: str
    may_pass: bool


class Sender:
    """Takes payloads from the queue and posts them, until it is closed. Used by one event loop."""

    def __init__(
        self, queue: PayloadQueue, counts: Counts, pool: Pool, *, path: str, writer: EventWriter, report: Report
    ) -> None:
        self._queue = queue
        self._counts = counts
        self._pool = pool
        self._path = path
        self._writer = writer
        self._report = report
        self._closing = asyncio.Event()
        self._tasks = [asyncio.ensure_future(self._run()) for _ in range(LOG_SENDERS)]

    async def close(self, timeout_s: float) -> None:
        """Send what waits, once each; after `timeout_s`, drop the rest."""
        self._closing.set()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._queue.join(), timeout_s)
        await cancel(*self._tasks)
        self._queue.drop_all()
        self._pool.close()

    async def _run(self) -> None:
        while True:
            payload = await self._queue.take()
            try:
                await self._deliver(payload)
            except asyncio.CancelledError:
                self._queue.drop(payload.kind, Drop.STOPPED)
                raise
            finally:
                self._queue.done(payload)
            self._report.write_if_due()

    async def _deliver(self, payload: Payload) -> None:
        headers, body = self._writer.headers(payload), b"".join(payload.pieces)
        pause_s = _FIRST_PAUSE_S
        for attempts_left in reversed(range(LOG_ATTEMPTS)):
            problem = await self._post(headers, body)
            if problem is None:
                self._counts.delivered[payload.kind] += 1
                return
            self._report.last_problem = problem.text
            if not (problem.may_pass and attempts_left) or self._closing.is_set():
                self._counts.failed[payload.kind, problem.failure] += 1
                return
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause_s)
            pause_s *= 2

    async def _post(self, headers: Headers, body: bytes) -> _Problem | None:
        try:
            response = await self._pool.request("POST", self._path, headers, body, LOG_TIMEOUT)
        except PredictorUnreachable as error:
            return _Problem(SinkFailure.UNREACHABLE, error.reason, may_pass=True)
        except PredictorTimeout:
            return _Problem(SinkFailure.TIMEOUT, f"it sent no response within {LOG_TIMEOUT} s", may_pass=False)
        except PredictorBroken as error:
            return _Problem(SinkFailure.BROKEN, str(error.__cause__), may_pass=True)
        return _problem_of(response.status)


def _problem_of(status: int) -> _Problem | None:
    text = f"it responded with {status}"
    if status >= 500:
        return _Problem(SinkFailure.STATUS_5XX, text, may_pass=True)
    if status >= 400:
        return _Problem(SinkFailure.STATUS_4XX, text, may_pass=status == _TOO_MANY)
    if status >= 300:
        return _Problem(SinkFailure.STATUS_3XX, text, may_pass=False)
    return None
