"""How a run ends: SIGTERM and SIGINT as exceptions, so that a stopped run cleans up as a failed one, and its exit."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from storage_initializer.errors import Termination

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def termination_raises() -> Iterator[None]:
    """Raise ``Termination`` at the first signal in the block; a container's first process would ignore it."""
    with _handling(_raise):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer signals to the end of the block."""
    held: list[int] = []
    try:
        with _handling(lambda number, _: held.append(number)):
            yield
    finally:
        for number in held[:1]:
            signal.raise_signal(number)


def leave(code: int) -> NoReturn:
    """End the process without tearing Python down: a thread of obstore that comes back to it then would abort."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _raise(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Termination(number, signal.Signals(number).name)


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    previous = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
