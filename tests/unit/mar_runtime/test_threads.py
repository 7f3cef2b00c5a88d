"""Calls in a thread of their own: in order, with their errors, and not kept afterwards."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref

import pytest

from mar_runtime.pool.work_thread import WorkThread


async def test_calls_run_one_after_another_in_one_thread() -> None:
    thread = WorkThread("worker")

    names = await asyncio.gather(*(thread.run(lambda: threading.current_thread().name) for _ in range(3)))

    assert names == ["worker"] * 3


async def test_what_a_call_raises_reaches_who_asked_and_nobody_else() -> None:
    thread = WorkThread("worker")

    with pytest.raises(SystemExit, match="7"):
        await thread.run(lambda: sys.exit(7))
    assert await thread.run(lambda: 1) == 1


async def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    thread, go = WorkThread("worker"), threading.Event()

    abandoned = asyncio.ensure_future(thread.run(go.wait))
    await asyncio.sleep(0)
    abandoned.cancel()
    go.set()

    assert await thread.run(lambda: 1) == 1


async def test_nothing_of_a_call_is_kept_while_the_thread_waits() -> None:
    class Large:
        pass

    thread = WorkThread("worker")
    result = weakref.ref(await thread.run(Large))
    await thread.run(lambda: None)
    gc.collect()

    assert result() is None


async def test_a_closed_thread_ends_after_what_it_was_asked_for() -> None:
    thread = WorkThread("worker to close")
    done = asyncio.ensure_future(thread.run(threading.current_thread))
    await asyncio.sleep(0)
    thread.close()

    (await done).join()
