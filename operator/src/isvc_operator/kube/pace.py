"""Lets one service after the other replace its pods for a newer version of the operator, so many a minute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from isvc_operator.kube.cache import ServiceKey


@dataclass
class Pace:
    """Gives each service a turn. ``clock`` counts seconds. After a restart of the operator, turns are given anew."""

    clock: Callable[[], float]
    _turns: dict[ServiceKey, float] = field(default_factory=dict)
    _last: float = float("-inf")

    def wait(self, key: ServiceKey, per_minute: int) -> float:
        """Return in how many seconds it is the service's turn, which it keeps; 0 if it is now, and taken."""
        if key not in self._turns:
            self._last = max(self.clock(), self._last + 60 / per_minute)
            self._turns[key] = self._last
        left = self._turns[key] - self.clock()
        if left > 0:
            return left
        self.forget(key)
        return 0.0

    def forget(self, key: ServiceKey) -> None:
        """Forget a service's turn."""
        self._turns.pop(key, None)
