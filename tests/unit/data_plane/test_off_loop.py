"""What is large runs off the event loop, what is small stays on it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from data_plane.limits import ON_LOOP_BYTES
from data_plane.off_loop import off_loop


async def test_what_is_small_stays_on_the_loop() -> None:
    assert await off_loop(ON_LOOP_BYTES, threading.get_ident) == threading.get_ident()


async def test_what_is_large_runs_in_a_thread() -> None:
    assert await off_loop(ON_LOOP_BYTES + 1, threading.get_ident) != threading.get_ident()


async def test_the_loop_goes_on_while_it_runs() -> None:
    release = threading.Event()
    waiting = asyncio.ensure_future(off_loop(ON_LOOP_BYTES + 1, release.wait, 30))
    await asyncio.sleep(0)
    release.set()

    assert await waiting


@pytest.mark.parametrize("size", [0, ON_LOOP_BYTES + 1])
async def test_what_it_raises_is_raised(size: int) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await off_loop(size, int, "one")
