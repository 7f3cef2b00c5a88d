"""Keeps components that get no traffic any more for a drain period, before they are deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from isvc_operator.manifests import ServiceKey
from isvc_operator.plan.changes import ChildChange
from isvc_operator.plan.traffic import TrafficPlan

# Seconds for which an ingress controller may still use the routes that it has read before.
DRAIN_SECONDS = 15.0


@dataclass(frozen=True)
class DueChanges:
    """``changes`` to send now; ``requeue_after`` is the number of seconds left of a drain period."""

    changes: Sequence[ChildChange] = ()
    requeue_after: float | None = None


@dataclass
class Drain:
    """Remembers since when the removed components of a service get no traffic. ``clock`` counts seconds.

    After a restart of the operator the drain period starts again.
    """

    clock: Callable[[], float]
    _since: dict[ServiceKey, float] = field(default_factory=dict)

    def due(self, key: ServiceKey, plan: TrafficPlan) -> DueChanges:
        """Return the changes of a plan that can be sent now."""
        if not plan.drained:
            self.forget(key)
            return DueChanges(plan.now)
        left = self._since.setdefault(key, self.clock()) + DRAIN_SECONDS - self.clock()
        if left > 0:
            return DueChanges(plan.now, left)
        self.forget(key)  # what is removed next is drained for a period of its own
        return DueChanges([*plan.now, *plan.drained])

    def forget(self, key: ServiceKey) -> None:
        """Forget a service."""
        self._since.pop(key, None)
