"""Report what blocks the event loop: meanwhile no other request makes progress, and probes fail.

A timer on the loop updates a timestamp that a thread checks; this costs nothing for a request. The thread detects long
blocks only, and needs the interpreter lock for that: a call in C that holds the lock is reported when it returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from types import FrameType

from data_plane.limits import LOOP_HELD_S

log = logging.getLogger(__name__)

_BEATS = 4  # heartbeats of the loop within the threshold


@contextlib.contextmanager
def watched_loop(threshold_s: float = LOOP_HELD_S, *, advice: str = "") -> Iterator[None]:
    """Log, once each, what blocks the running loop for `threshold_s`, with its stack and `advice`."""
    watch = _Watch(asyncio.get_running_loop(), threshold_s, advice)
    watch.beat()
    watch.start()
    try:
        yield
    finally:
        watch.ended.set()


class _Watch(threading.Thread):
    def __init__(self, loop: asyncio.AbstractEventLoop, threshold_s: float, advice: str) -> None:
        super().__init__(name="loop-watch", daemon=True)
        self._loop = loop
        self._threshold_s = threshold_s
        self._advice = advice
        self._watched = threading.get_ident()
        self._last = time.monotonic()
        self.ended = threading.Event()

    def beat(self) -> None:
        """Record that the loop is running, and schedule the next heartbeat."""
        self._last = time.monotonic()
        if not self.ended.is_set():
            self._loop.call_later(self._threshold_s / _BEATS, self.beat)

    def run(self) -> None:
        reported: float | None = None  # the last heartbeat before the block that was logged
        while not self.ended.wait(self._threshold_s / _BEATS):
            last = self._last
            if reported not in (None, last):
                log.warning("the event loop goes on; it was held for more than %g s", self._threshold_s)
                reported = None
            if reported is None and time.monotonic() - last > self._threshold_s:
                reported = last
                log.warning(
                    "the event loop is held for %.1f s, and no other request gets on%s. It is at:\n%s%s",
                    time.monotonic() - last, f"; {self._advice}" if self._advice else "", *self._places(),
                )  # fmt: skip

    def _places(self) -> tuple[str, str]:
        """Return the stack of the loop's thread, and the line of each other thread: one may hold the interpreter."""
        frames = dict(sys._current_frames())
        frames.pop(threading.get_ident(), None)
        held = frames.pop(self._watched, None)
        stack = "".join(traceback.format_stack(held)) if held else "(the thread has ended)\n"
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        others = [f"{names.get(ident, ident)} at {_line(frame)}" for ident, frame in frames.items()]
        return stack, f"Other threads: {'; '.join(others)}." if others else ""


def _line(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})"
