"""What is large runs off the event loop, what is small stays on it."""

from __future__ import annotations

import threading

from data_plane.limits import ON_LOOP_BYTES
from data_plane.off_loop import off_loop


async def test_what_is_small_stays_on_the_loop() -> None:
    assert await off_loop(ON_LOOP_BYTES, threading.get_ident) == threading.get_ident()


async def test_what_is_large_runs_in_a_thread() -> None:
    assert await off_loop(ON_LOOP_BYTES + 1, threading.get_ident) != threading.get_ident()
