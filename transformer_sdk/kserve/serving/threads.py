"""A thread pool for sync hooks, so that they do not block the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
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


class HookThreads:
    """A pool of `size` threads. With a size of 0, hooks run on the event loop, one after the other."""

    def __init__(self, size: int, waiting_for_each: int = HOOKS_WAITING) -> None:
        self._size = size
        self._limit = size * (1 + waiting_for_each)
        self._pool = ThreadPoolExecutor(max(size, 1), "hooks")
        self._pending: set[Future[Any]] = set()

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run the function in a thread; raises its errors, and ThreadsBusy. Cancelling does not stop the thread."""
        if not self._size:
            return function(*args)
        if len(self._pending) >= self._limit:
            raise ThreadsBusy(self._size, len(self._pending) - self._size)
        job = _Job(function, args)
        future = self._pool.submit(contextvars.copy_context().run, job)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        outcome = asyncio.wrap_future(future)
        try:
            return await outcome
        except asyncio.CancelledError as error:
            if outcome.cancelled():
                error.args = (_stack(job.thread),)  # for the caller, as the traceback does not show it
            raise

    def close(self) -> None:
        """End each thread after its current job."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def are_running(self) -> bool:
        """Whether hooks still run: the interpreter would wait for them when it exits."""
        return bool(self._pending)


class _Job:
    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._function = function
        self._args = args
        self.thread: int | None = None  # the thread that runs the job

    def __call__(self) -> Any:
        self.thread = threading.get_ident()
        try:
            return self._function(*self._args)
        except StopIteration as stop:  # asyncio's futures do not accept it
            raise RuntimeError(f"StopIteration: {stop}") from stop
        finally:
            self.thread = None


def _stack(thread: int | None) -> str:
    frame = sys._current_frames().get(thread or 0)
    if frame is None:
        return "no line: no thread runs it yet, or it has ended"
    return "".join(traceback.format_stack(frame))
