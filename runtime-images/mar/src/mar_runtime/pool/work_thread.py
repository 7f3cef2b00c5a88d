"""A thread that runs calls one after another."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R")


class WorkThread:
    """Runs one call after another. It is a daemon thread: a call that hangs does not keep the server from ending."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Callable[[Any, BaseException | None], object]] | None]
        self._jobs = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def run(self, call: Callable[[], R]) -> R:
        """Return what `call` returns; raises what it raises."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[R] = loop.create_future()
        self._jobs.put((call, lambda *outcome: loop.call_soon_threadsafe(_settle, done, *outcome)))
        return await done

    def close(self) -> None:
        """End the thread after the calls that it has received."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, settle = job
            try:
                result, error = call(), None
            except BaseException as raised:  # noqa: BLE001 - raised in the caller
                result, error = None, raised
            with contextlib.suppress(RuntimeError):  # the loop is closed, and the caller with it
                settle(result, error)
            del job, call, settle, result, error  # keep nothing alive while the thread waits


def _settle(done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)
