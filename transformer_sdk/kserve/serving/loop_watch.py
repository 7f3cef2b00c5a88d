"""Report what blocks the event loop: meanwhile no other request makes progress, and probes fail.

A timer on the loop updates a time that a thread checks; this costs nothing for a request. The thread detects long
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
from collections.abc import Callable, Iterator

from data_plane.limits import LOOP_HELD_S
from data_plane.log_lines import CALLERS

log = logging.getLogger(__name__)

_BEATS = 4  # of the timer within the threshold
_ADVICE = "if an async hook blocks or computes, make it sync, so that it runs in a thread"


@contextlib.contextmanager
def watched_loop(is_ready: Callable[[], bool], threshold_s: float = LOOP_HELD_S) -> Iterator[None]:
    """Log, once each, what of the user's code blocks the running loop for `threshold_s` while the server is ready."""
    loop, watched, ended = asyncio.get_running_loop(), threading.get_ident(), threading.Event()
    last = time.monotonic()

    def beat() -> None:
        nonlocal last
        last = time.monotonic()
        if not ended.is_set():
            loop.call_later(threshold_s / _BEATS, beat)

    def watch() -> None:
        reported = 0.0  # the last beat before the block that was logged
        while not ended.wait(threshold_s / _BEATS):
            since = last
            seconds = time.monotonic() - since
            if seconds > threshold_s and since != reported and is_ready() and (place := _place_of(watched)):
                reported = since
                log.warning("no request gets on for %.1f s: the event loop is held at %s; %s", seconds, place, _ADVICE)

    beat()
    threading.Thread(target=watch, name="loop-watch", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _place_of(thread: int) -> str:
    """Return the innermost line of the user's code and its libraries on a thread's loop; empty if it runs none."""
    for frame, line in traceback.walk_stack(sys._current_frames().get(thread)):
        package, code = str(frame.f_globals.get("__name__", "")).partition(".")[0], frame.f_code
        if (package, code.co_name) == ("asyncio", "run"):  # the rest has started the loop
            break
        if package not in CALLERS:
            return f"{code.co_filename}:{line} ({code.co_name})"
    return ""
