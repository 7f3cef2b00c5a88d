"""Whether a model can serve requests: its state, the reason for it, and how events change it. Pure."""

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


class Event(enum.Enum):
    """What happens to a model."""

    LOAD = "load"
    READY = "ready"
    WORKERS_LOST = "workers lost"
    UNREADY = "unready"
    UNLOAD = "unload"
    FAIL = "fail"


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
    def holds_back_readiness(self) -> bool:
        """Whether the server is not ready because of this model."""
        return self.state not in (State.READY, State.FAILED)


READY = Health(State.READY)

_LEADS_TO = {
    Event.LOAD: State.LOADING,
    Event.READY: State.READY,
    Event.WORKERS_LOST: State.RECOVERING,
    Event.UNREADY: State.UNREADY,
    Event.UNLOAD: State.UNLOADING,
    Event.FAIL: State.FAILED,
}
_ALWAYS = frozenset({Event.LOAD, Event.UNLOAD, Event.FAIL})
# Which events count in a state; all others are ignored there. None: the model is not known yet.
_COUNTS: Mapping[State | None, frozenset[Event]] = {
    None: frozenset({Event.LOAD, Event.FAIL}),
    State.LOADING: _ALWAYS | {Event.READY, Event.UNREADY},
    State.READY: _ALWAYS | {Event.READY, Event.WORKERS_LOST, Event.UNREADY},
    State.RECOVERING: _ALWAYS | {Event.READY, Event.WORKERS_LOST, Event.UNREADY},
    State.UNREADY: _ALWAYS | {Event.READY, Event.UNREADY},
    State.UNLOADING: _ALWAYS,  # its workers come and go until it is gone
    State.FAILED: _ALWAYS,  # until it is loaded again
}
_REASONS = {State.LOADING: "is loading", State.UNLOADING: "is being unloaded"}


def after(health: Health | None, event: Event, reason: str = "") -> Health | None:
    """Return a model's health after an event: the same one where the event does not count."""
    if event not in _COUNTS[health.state if health else None]:
        return health
    state = _LEADS_TO[event]
    return Health(state, reason or _REASONS.get(state, ""))
