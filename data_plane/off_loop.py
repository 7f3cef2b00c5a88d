"""What takes long for its size runs in a thread, so that the event loop goes on meanwhile.

One thread for all: each more would have its turn of the interpreter between two of the loop's. It helps with what lets
the interpreter go now and then, as Python's own code does; a call in C must be short by itself (`protocol.json_text`).
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
    """What the function returns; raises what it raises. `size`, in bytes of what it reads or writes, decides where."""
    if size <= ON_LOOP_BYTES:
        return function(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_thread, lambda: function(*args, **kwargs))
