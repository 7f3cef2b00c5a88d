"""Waiting for what happens elsewhere: by looking again, never by sleeping a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.2  # seconds: each look costs time, of a server too, and most waits are short


def eventually(probe: Callable[[], T | None], what: str, within: float = 60.0, otherwise: Callable[[], str] = str) -> T:
    """The first true value of ``probe``; AssertionError, with ``otherwise``'s words, when none comes in time."""
    deadline, pause = time.monotonic() + within, FIRST_PAUSE
    while not (value := probe()):
        assert time.monotonic() < deadline, f"waited {within:g} s in vain until {what}; {otherwise()}"
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_PAUSE)
    return value
