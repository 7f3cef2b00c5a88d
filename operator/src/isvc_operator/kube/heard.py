"""When each watch has last heard from the API server, and how often it was opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from isvc_operator.telemetry.snapshot import WatchState


class Heard:
    """Knows watches by their path. ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at: dict[str, float] = {}
        self._starts: Counter[str] = Counter()
        self._needed_since: dict[str, float] = {}

    def opened(self, path: str) -> None:
        """Note that the API server has accepted a watch, which follows a list of what exists."""
        self._starts[path] += 1
        self.heard(path)

    def heard(self, path: str) -> None:
        """Note that something came on an open watch."""
        self._at[path] = self._clock()

    def states(self, needed: Mapping[str, str]) -> tuple[WatchState, ...]:
        """Return the states of the watches that are needed now: their resources by path.

        One that is not needed any more, because its kind was removed, is forgotten.
        """
        now = self._clock()
        for path in [*self._needed_since]:
            if path not in needed:
                del self._needed_since[path]
                self._at.pop(path, None)
        return tuple(
            WatchState(
                resource=needed[path],
                path=path,
                listed=path in self._at,
                silent=now - self._at.get(path, self._needed_since.setdefault(path, now)),
                starts=self._starts[path],
            )
            for path in sorted(needed)
        )
