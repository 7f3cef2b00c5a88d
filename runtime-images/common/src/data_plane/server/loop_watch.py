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
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

from data_plane.limits import LOOP_HELD_S
from data_plane.log_lines import OURS

log = logging.getLogger(__name__)

_LOOPS = frozenset({"asyncio", "selectors", "uvloop"})
_LIBRARIES = OURS | sys.stdlib_module_names | _LOOPS

_BEATS = 4  # heartbeats of the loop within the threshold


@contextlib.contextmanager
def watched_loop(
    threshold_s: float = LOOP_HELD_S, *, advice: str = "", is_ready: Callable[[], bool] = lambda: True
) -> Iterator[None]:
    """Log, once each, what blocks the running loop for `threshold_s`, with `advice`; at DEBUG with its stack.

    While the server is not ready, no request waits for the loop, and all is logged at DEBUG.
    """
    watch = _Watch(asyncio.get_running_loop(), threshold_s, advice, is_ready)
    watch.beat()
    watch.start()
    try:
        yield
    finally:
        watch.ended.set()


class _Watch(threading.Thread):
    def __init__(
        self, loop: asyncio.AbstractEventLoop, threshold_s: float, advice: str, is_ready: Callable[[], bool]
    ) -> None:
        super().__init__(name="loop-watch", daemon=True)
        self._loop = loop
        self._threshold_s = threshold_s
        self._advice = advice
        self._is_ready = is_ready
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
                log.debug("the event loop goes on; it was held for more than %g s", self._threshold_s)
                reported = None
            if reported is None and time.monotonic() - last > self._threshold_s:
                reported = last
                frames = dict(sys._current_frames())
                if held := frames.pop(self._watched, None):  # None if the thread has just ended
                    self._report(time.monotonic() - last, held, frames)

    def _report(self, seconds: float, held: FrameType, others: Mapping[int, FrameType]) -> None:
        """Log where the loop's thread is, and at DEBUG each other thread: one may hold the interpreter.

        A loop that is in no callback waits for that, or for a processor: what holds it is not known.
        """
        level = logging.DEBUG if _package(held) in _LOOPS or not self._is_ready() else logging.WARNING
        advice = f"; {self._advice}" if self._advice else ""
        log.log(level, "no request gets on for %.1f s: the event loop is held at %s%s", seconds, _place(held), advice)
        names = {thread.ident: thread.name for thread in threading.enumerate() if thread is not self}
        lines = "; ".join(f"{names[ident]} at {_line(frame)}" for ident, frame in others.items() if ident in names)
        log.debug("the event loop is at:\n%sOther threads: %s", "".join(traceback.format_stack(held)), lines or "none")


def _place(frame: FrameType) -> str:
    """Return the innermost line of the user's code and its libraries, or else of ours."""
    frames = [frame for frame, _ in traceback.walk_stack(frame)]
    return _line(next(filter(_is_of_a_user, frames), frames[0]))


def _is_of_a_user(frame: FrameType) -> bool:
    # A module's own line is where the program was started.
    return _package(frame) not in _LIBRARIES and frame.f_code.co_name != "<module>"


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _line(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})"
