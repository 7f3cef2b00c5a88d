"""Call users' hooks outside of requests, sync or async: load, start, stop, readiness and metadata."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from data_plane.messages import text_of

_serving_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("serving_loop", default=None)
_begun: set[asyncio.Future[Any]] = set()


def set_serving_loop() -> None:
    """Register the running loop as the server's: async hooks that sync code calls run in it."""
    _serving_loop.set(asyncio.get_running_loop())


async def done(result: Any) -> Any:
    """Return the result of a hook, awaited if it is awaitable."""
    while inspect.isawaitable(result):
        result = await result
    return result


async def call(hook: Callable[..., Any], *args: Any) -> Any:
    """Call a hook and return its result; a sync hook runs in a thread, as it may block.

    SystemExit and others that are not an Exception become a RuntimeError, so that they end neither server nor task.
    """
    try:
        if inspect.iscoroutinefunction(hook):
            return await done(hook(*args))
        return await done(await asyncio.to_thread(hook, *args))
    except Exception:
        raise
    except BaseException as error:
        if ends_task(error, asyncio.current_task()):
            raise
        raise RuntimeError(f"{type(error).__name__} : {text_of(error)}") from error


def ends_task(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether the error ends the task itself (cancelled or closed), as opposed to an error raised by a hook in it."""
    if task is None:
        return True
    if isinstance(error, asyncio.CancelledError):
        cancelling = getattr(task, "cancelling", None)
        return cancelling is None or bool(cancelling())  # tasks of Python 3.10 do not report this
    return isinstance(error, GeneratorExit) and asyncio.current_task(task.get_loop()) is not task


def finish(result: Any) -> Any:
    """Return the result of a hook, sync or async, to sync code.

    In a thread, an async hook is run to completion in the server's loop or, without a server, in a new one. In an event
    loop, which must not block, the hook is started and its task is returned.
    """
    if not inspect.isawaitable(result):
        return result
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        serving = _serving_loop.get()
        return (
            asyncio.run_coroutine_threadsafe(done(result), serving).result() if serving else asyncio.run(done(result))
        )
    return begin(result)


def begin(result: Any) -> asyncio.Future[Any]:
    """Start an async hook as a task; a reference to the task is kept until it ends."""
    task = asyncio.ensure_future(done(result))
    _begun.add(task)
    task.add_done_callback(_begun.discard)
    return task


async def all_ended() -> None:
    """Wait for the tasks that sync code has started in this loop; raises the first error."""
    running = asyncio.get_running_loop()
    await asyncio.gather(*(task for task in _begun if task.get_loop() is running))
