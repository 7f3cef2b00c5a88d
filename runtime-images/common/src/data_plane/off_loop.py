"""Run work on large data in a thread, so that it does not block the event loop.

There is one thread for all work: every further one would compete with the event loop for the interpreter. This helps
for code that releases the interpreter lock now and then, as Python code does. The parsers of JSON and protobuf hold it
for a whole call, so what they are given is bounded (`protocol.json_text`, `protocol.v2.fields`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from data_plane.limits import ON_LOOP_BYTES

P = ParamSpec("P")
R = TypeVar("R")

_thread = ThreadPoolExecutor(1, "large-requests")


async def off_loop(size: int, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return the function's result; it runs in the thread if `size`, the bytes that it reads or writes, is large."""
    if size <= ON_LOOP_BYTES:
        return function(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_thread, lambda: function(*args, **kwargs))
