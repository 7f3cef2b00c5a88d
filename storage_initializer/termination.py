"""SIGTERM and SIGINT as exceptions, so that a stopped run cleans up like a failed one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from storage_initializer.errors import Termination

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def termination_raises() -> Iterator[None]:
    """Inside, the first signal raises ``Termination``; a container's first process ignores it otherwise."""
    previous = {number: signal.signal(number, _raise) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals wait until the end of the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _raise(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Termination(number, signal.Signals(number).name)
