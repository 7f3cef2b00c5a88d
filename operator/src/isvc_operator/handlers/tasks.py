"""Waits for the first of several tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until_set(event: asyncio.Event) -> None:
    """Return when the event is set."""
    await event.wait()


async def until_one_ends(*running: Coroutine[Any, Any, None] | asyncio.Task[None]) -> None:
    """Wait for the first to end, cancel the others, and raise its error."""
    tasks = [one if isinstance(one, asyncio.Task) else asyncio.create_task(one) for one in running]
    done: set[asyncio.Task[None]] = set()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
