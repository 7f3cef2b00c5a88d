"""Asks a server for its health while something else is done to it."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

LONGEST = "longest wait for health: "
_PAUSE_S = 0.05
_GIVEN_UP_S = 60  # by then a server hangs


@dataclass
class Health:
    """What a probe saw: how often it was answered with 200, everything else, and the longest that it waited."""

    path: str
    answers: int = 0
    bad: list[object] = field(default_factory=list)
    longest_s: float = 0.0

    def ask(self, port: int) -> None:
        """On a connection of its own, as the kubelet does."""
        started = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_GIVEN_UP_S)
        try:
            with contextlib.closing(connection):
                connection.request("GET", self.path)
                status = connection.getresponse().status
        except OSError as error:
            self.bad.append(error)
        else:
            self.answers += 1
            if status != 200:
                self.bad.append(status)
        self.longest_s = max(self.longest_s, time.perf_counter() - started)


@contextlib.contextmanager
def healthy(port: int, path: str = "/v2/health/live") -> Iterator[None]:
    """All the while each probe is answered with 200. Prints the longest wait, which `make bench ARGS=health` judges."""
    health, over = Health(path), threading.Event()

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
    print(f"{LONGEST}{health.longest_s:.3f} s")
    assert (health.bad, health.answers > 0) == ([], True)
