"""A thread pool for sync hooks, so that they do not block the event loop.

concurrent.futures costs four times as much for a hook (docs/decisions/0014). Here a job has no lock of its own, and one
wake-up of the event loop delivers all available results.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from data_plane.errors import ServingError
from data_plane.limits import HOOKS_WAITING


class ThreadsBusy(ServingError):
    """All threads run hooks, and too many requests wait for one."""

    status = 503
    retry_after_s = 1
    component = "transformer"

    def __init__(self, size: int, waiting: int) -> None:
        super().__init__(
            f"{waiting} requests wait for one of the {size} threads of sync hooks (--max_threads); send it again later."
        )


@dataclass(slots=True)
class _Job:
    outcome: asyncio.Future[Any]
    context: contextvars.Context
    function: Callable[..., Any]
    args: tuple[Any, ...]
    thread: int | None = None  # the thread that runs the job


class HookThreads:
    """A pool for the event loop that creates it; threads start on demand and are never joined.

    With a size of 0, hooks run on the event loop, one after the other.
    """

    def __init__(self, size: int, waiting_for_each: int = HOOKS_WAITING) -> None:
        self._loop = asyncio.get_running_loop()
        self._size = size
        self._limit = size * (1 + waiting_for_each)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._done: collections.deque[tuple[_Job, Any, BaseException | None]] = collections.deque()
        self._waking = False
        self._pending = 0
        self._threads: list[threading.Thread] = []

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run the function in a thread; raises its errors, and ThreadsBusy. Cancelling does not stop the thread."""
        if not self._size:
            return function(*args)
        if self._pending >= self._limit:
            raise ThreadsBusy(self._size, self._pending - self._size)
        if self._pending >= len(self._threads) < self._size:
            self._start_one()
        job = _Job(self._loop.create_future(), contextvars.copy_context(), function, args)
        self._pending += 1
        self._jobs.put(job)
        try:
            return await job.outcome
        except asyncio.CancelledError as error:
            if job.outcome.cancelled():
                error.args = (_stack(job.thread),)  # for the caller, as the traceback does not show it
            raise

    def close(self) -> None:
        """End each thread after its current job; a thread that hangs is abandoned."""
        for _ in self._threads:
            self._jobs.put(None)

    def _start_one(self) -> None:
        # A daemon: a hook that hangs must not prevent the process from exiting.
        thread = threading.Thread(target=self._work, name=f"hooks-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            result: Any = None
            error: BaseException | None = None
            if not job.outcome.cancelled():
                job.thread = threading.get_ident()
                try:
                    result = job.context.run(job.function, *job.args)
                except StopIteration as stop:  # futures do not accept it
                    error = RuntimeError(f"StopIteration: {stop}")
                except BaseException as raised:  # noqa: BLE001 - passed on to the caller
                    error = raised
                job.thread = None
            self._done.append((job, result, error))
            if not self._waking:
                self._waking = True
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the result
                    self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._waking = False  # first, so that results added from now on wake the loop again
        while self._done:
            job, result, error = self._done.popleft()
            self._pending -= 1
            if job.outcome.done():
                continue
            if error is None:
                job.outcome.set_result(result)
            else:
                job.outcome.set_exception(error)


def _stack(thread: int | None) -> str:
    frame = sys._current_frames().get(thread or 0)
    if frame is None:
        return "no line: no thread runs it yet, or it has ended"
    return "".join(traceback.format_stack(frame))
