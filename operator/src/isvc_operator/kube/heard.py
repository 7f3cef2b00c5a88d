"""When each watch has last heard from the API server, and how often it was opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from isvc_operator.telemetry.snapshot import WatchState


class Heard:
    """Knows watches by their path. ``clock`` counts seconds.

    The API server sends bookmarks on a watch once an object of its kind has changed. Before that, an open watch is
    not silent: there is nothing to hear on it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at: dict[str, float] = {}
        self._starts: Counter[str] = Counter()
        self._listed: set[str] = set()
        self._nothing_to_hear: set[str] = set()
        self._open: set[str] = set()
        self._lost: dict[str, float] = {}  # since when those are not open that were

    def listed(self, path: str) -> None:
        """Note that the objects that exist are known."""
        self._listed.add(path)
        self._at[path] = self._clock()

    def opened(self, path: str) -> None:
        """Note that the API server has accepted a watch."""
        self._starts[path] += 1
        self._at[path] = self._clock()
        self._nothing_to_hear.add(path)
        self._open.add(path)
        self._lost.pop(path, None)

    def heard(self, path: str) -> None:
        """Note that something came on an open watch."""
        self._at[path] = self._clock()
        self._nothing_to_hear.discard(path)

    def ended(self, path: str) -> None:
        """Note that a watch ended."""
        if path in self._open:
            self._open.discard(path)
            self._lost[path] = self._clock()
        if path in self._nothing_to_hear:
            self._at[path] = self._clock()
            self._nothing_to_hear.discard(path)

    def forget(self, path: str) -> None:
        """Forget a watch that is not needed any more."""
        self._at.pop(path, None)
        self._listed.discard(path)
        self._open.discard(path)
        self._lost.pop(path, None)
        self._nothing_to_hear.discard(path)

    def lost(self) -> float:
        """Return for how many seconds a watch that was open has not been opened again; the longest, or 0."""
        return self._clock() - min(self._lost.values()) if self._lost else 0.0

    def states(self, needed: Mapping[str, str]) -> tuple[WatchState, ...]:
        """Return the states of the watches that are needed now: their resources by path."""
        now = self._clock()
        return tuple(
            WatchState(
                resource=needed[path],
                path=path,
                listed=path in self._listed,
                silent=0.0 if path in self._nothing_to_hear else now - self._at.setdefault(path, now),
                starts=self._starts[path],
            )
            for path in sorted(needed)
        )
