"""Lets one service after the other replace its pods for something that they share, so many a minute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from isvc_operator.manifests import ServiceKey

# Seconds. A service that asks later than this for its turn was held up, and the others with it.
_LATE = 1.0


@dataclass
class Pace:
    """Gives each service a turn. ``clock`` counts seconds. After a restart of the operator, turns are given anew."""

    clock: Callable[[], float]
    _per_minute: int = 1
    _line: dict[ServiceKey, float] = field(default_factory=dict)  # when each that waits may begin, the next one first
    _begun: set[ServiceKey] = field(default_factory=set)  # those whose pods may be replaced, and are not yet
    _last: float = float("-inf")  # when the last one began

    def wait(self, key: ServiceKey, per_minute: int) -> float:
        """Return in how many seconds it is the service's turn, which it keeps until it is forgotten; 0 if it is now."""
        if key in self._begun:
            return 0.0
        now, turn = self.clock(), self._line.get(key)
        if per_minute != self._per_minute or (turn is not None and now - turn > _LATE):
            self._per_minute = per_minute
            self._space()
        if turn is None:
            self._line[key] = self._after(next(reversed(self._line.values()), self._last))
        if (left := self._line[key] - now) > 0:
            return left
        del self._line[key]
        self._begun.add(key)
        self._last = now
        return 0.0

    def forget(self, key: ServiceKey) -> None:
        """Forget a service, which has replaced its pods or need not do so."""
        self._line.pop(key, None)
        self._begun.discard(key)

    def _space(self) -> None:
        """Give those that wait other turns, in the same order: a rate holds for those that begin, also after a halt."""
        turn = self._last
        for key in self._line:
            turn = self._line[key] = self._after(turn)

    def _after(self, turn: float) -> float:
        return max(self.clock(), turn + 60 / self._per_minute)
