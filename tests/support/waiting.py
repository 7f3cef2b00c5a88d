"""Waiting for what happens elsewhere: by looking again, never by sleeping a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.05  # seconds


def eventually(probe: Callable[[], T | None], what: str, within: float = 60.0, otherwise: Callable[[], str] = str) -> T:
    """The first true value of ``probe``; AssertionError, with ``otherwise``'s words, when none comes in time."""
    deadline = time.monotonic() + within
    while not (value := probe()):
        assert time.monotonic() < deadline, f"waited {within:g} s in vain until {what}; {otherwise()}"
        time.sleep(POLL_S)
    return value
