"""Ends tasks that run in the background."""

from __future__ import annotations

import asyncio
from typing import Any

# Longer than a task may take to clean up: ending the workers that it has started takes up to 5 s.
_AGAIN_S = 10.0


async def cancel(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and return when they have ended, however they did.

    One that goes on for long is cancelled again: `asyncio.wait_for` of Python 3.10 and 3.11 loses a cancellation that
    comes in the same turn of the event loop as its result, and users' code may lose one, too.
    """
    running = {*tasks}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)
