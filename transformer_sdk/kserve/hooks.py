"""Users' hooks beside requests, sync or async: loading, starting, stopping, and what they say of themselves."""

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
    """The loop that runs now is the server's: async hooks that sync code calls run in it."""
    _serving_loop.set(asyncio.get_running_loop())


async def done(result: Any) -> Any:
    """What a hook returned, which may be a promise of it."""
    while inspect.isawaitable(result):
        result = await result
    return result


async def call(hook: Callable[..., Any], *args: Any) -> Any:
    """What a hook returns. A sync one has a thread: it may take its time, and the event loop has other things to do.

    What it raises that is no Exception, such as SystemExit, comes as a RuntimeError: it ends neither server nor task.
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
    """Whether the error is the end of the task itself, cancelled or thrown away, and not what a hook in it raised."""
    if task is None:
        return True
    if isinstance(error, asyncio.CancelledError):
        cancelling = getattr(task, "cancelling", None)
        return cancelling is None or bool(cancelling())  # tasks of Python 3.10 do not tell
    return isinstance(error, GeneratorExit) and asyncio.current_task(task.get_loop()) is not task


def finish(result: Any) -> Any:
    """What a hook returned, sync or async, for code that is sync.

    In a thread an async one is waited for, in the server's loop or, where none serves, in one of its own. In an event
    loop nobody may wait: it is begun, and the task is returned, for whoever can await it.
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
    """A task of what an async hook returned, which is kept until it has ended."""
    task = asyncio.ensure_future(done(result))
    _begun.add(task)
    task.add_done_callback(_begun.discard)
    return task


async def all_ended() -> None:
    """Wait for what sync code has begun in this loop; raises what the first of it raises."""
    running = asyncio.get_running_loop()
    await asyncio.gather(*(task for task in _begun if task.get_loop() is running))
