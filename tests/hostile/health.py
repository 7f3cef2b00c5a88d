"""Asks a server for its health while something else is done to it."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

WITHIN_S = 1.0  # what probes wait by default
_PAUSE_S = 0.05


@dataclass
class Health:
    """What a probe saw: the longest that it waited, in seconds, and each answer that was not 200."""

    longest_s: float = 0.0
    answers: int = 0
    bad: list[object] = field(default_factory=list)

    def ask(self, port: int) -> None:
        """On a connection of its own, as the kubelet does."""
        started = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            with contextlib.closing(connection):
                connection.request("GET", "/v2/health/live")
                status = connection.getresponse().status
        except OSError as error:
            self.bad.append(error)
        else:
            self.answers += 1
            if status != 200:
                self.bad.append(status)
        self.longest_s = max(self.longest_s, time.perf_counter() - started)


@contextlib.contextmanager
def healthy(port: int) -> Iterator[None]:
    """All the while health is answered in time."""
    health, over = Health(), threading.Event()

    def watch() -> None:
        while not over.is_set():
            health.ask(port)
            over.wait(_PAUSE_S)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
    assert (health.bad, health.answers > 0) == ([], True)
    assert health.longest_s < WITHIN_S
