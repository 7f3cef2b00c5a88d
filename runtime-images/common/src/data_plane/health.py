"""Whether a model can serve requests: its state, the reason for it, and which states may follow. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class State(enum.Enum):
    """Where a model is in its lifecycle."""

    LOADING = "loading"  # requests are refused until it is ready
    READY = "ready"
    RECOVERING = "recovering"  # it lost its workers and gets new ones: requests are accepted, and wait
    UNREADY = "unready"  # its own code, or the server that it calls, reports that it is not ready
    UNLOADING = "unloading"  # requests under way are finished, new ones are refused
    FAILED = "failed"  # it does not recover by itself; the server goes on serving the others


ACCEPTS_REQUESTS = (State.READY, State.RECOVERING)


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a model. `reason` continues the sentence that starts with the model's name; empty when ready."""

    state: State
    reason: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether the model can serve requests now."""
        return self.state is State.READY

    @property
    def is_changing(self) -> bool:
        """Whether it is loaded or unloaded."""
        return self.state in (State.LOADING, State.UNLOADING)

    @property
    def holds_back_readiness(self) -> bool:
        """Whether the server is not ready because of this model."""
        return self.state not in (State.READY, State.FAILED)


READY = Health(State.READY)

_IN_USE = frozenset({State.LOADING, State.READY, State.RECOVERING, State.UNREADY})
# The states that each one may follow. None: the model is not known yet.
_FOLLOWS: Mapping[State, frozenset[State | None]] = {
    State.LOADING: frozenset({None, *State}),
    State.READY: _IN_USE,
    State.RECOVERING: frozenset({State.READY, State.RECOVERING}),
    State.UNREADY: _IN_USE,
    State.UNLOADING: frozenset(State),
    State.FAILED: frozenset({None, *State}),
}
_REASONS = {State.LOADING: "is loading", State.UNLOADING: "is being unloaded"}


def after(health: Health | None, state: State, reason: str = "") -> Health | None:
    """Return a model's health when it is said to be in a state: the same as before, where that cannot follow.

    Workers come and go until a model is unloaded, and one that has failed is out of service until it is loaded again.
    """
    if (health.state if health else None) not in _FOLLOWS[state]:
        return health
    return Health(state, reason or _REASONS.get(state, ""))
