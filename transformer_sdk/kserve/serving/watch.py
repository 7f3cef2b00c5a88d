"""Finds hooks that hold the event loop: while one does, no other request gets on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterator

log = logging.getLogger(__name__)

BLOCKED_S = 1.0


@contextlib.contextmanager
def watched_loop(threshold_s: float = BLOCKED_S) -> Iterator[None]:
    """While this is open, whatever holds the running loop for so long is logged once, with its stack."""
    watch = _Watch(asyncio.get_running_loop(), threshold_s)
    watch.beat()
    watch.start()
    try:
        yield
    finally:
        watch.ended.set()


class _Watch(threading.Thread):
    def __init__(self, loop: asyncio.AbstractEventLoop, threshold_s: float) -> None:
        super().__init__(name="loop-watch", daemon=True)
        self._loop = loop
        self._threshold_s = threshold_s
        self._watched = threading.get_ident()
        self._last = time.monotonic()
        self.ended = threading.Event()

    def beat(self) -> None:
        """The loop runs."""
        self._last = time.monotonic()
        if not self.ended.is_set():
            self._loop.call_later(self._threshold_s / 4, self.beat)

    def run(self) -> None:
        reported: float | None = None  # the beat after which the loop was held
        while not self.ended.wait(self._threshold_s / 4):
            last = self._last
            if reported not in (None, last):
                log.warning("the event loop goes on; it was held for more than %.1f s", self._threshold_s)
                reported = None
            if reported is None and time.monotonic() - last > self._threshold_s:
                reported = last
                log.warning(
                    "the event loop is held for %.1f s: a hook waits or computes in async code, and no other request "
                    "gets on; make the hook sync, then it has a thread. It is at:\n%s",
                    time.monotonic() - last, self._stack(),
                )  # fmt: skip

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._watched)
        return "".join(traceback.format_stack(frame)) if frame else "(the thread has ended)"
