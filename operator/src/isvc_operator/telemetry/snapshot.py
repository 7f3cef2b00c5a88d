"""The operator's state at one moment, as values: what gauges and probes report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from isvc_operator.limits import QUEUE_STILL_SECONDS, WATCH_SILENT_SECONDS


class Result(StrEnum):
    """How a reconcile ended; all but the first are retried."""

    SUCCESS = "success"
    REFUSED = "refused"  # until its users correct something: a Secret, a quota, a policy, another object
    ERROR = "error"  # of the API server, or a permission that the operator lacks
    UNEXPECTED = "unexpected"  # a bug of the operator


class Phase(StrEnum):
    """What the status of a service says about it."""

    PENDING = "Pending"  # it has no status yet
    STARTING = "Starting"  # Ready is Unknown
    READY = "Ready"
    FAILED = "Failed"  # Ready is False
    STOPPED = "Stopped"
    TERMINATING = "Terminating"  # it is being deleted


@dataclass(frozen=True)
class QueueState:
    """The work queue; times in seconds.

    ``oldest``: how long the oldest key has waited. ``longest``: how long the longest of the reconciles in progress has
    taken so far. ``still``: how long keys have waited and no reconcile has begun or ended. ``retrying``: how many
    services' last reconcile failed, by its result.
    """

    waiting: int = 0
    oldest: float = 0.0
    running: int = 0
    longest: float = 0.0
    still: float = 0.0
    retrying: Mapping[Result, int] = field(default_factory=dict)


@dataclass(frozen=True)
class WatchState:
    """A watch that is needed; ``listed``: whether the objects that existed at its start are known.

    ``silent``: seconds since anything came from the API server: a response, an event or a bookmark.
    """

    resource: str
    path: str
    listed: bool
    silent: float
    starts: int


class ServiceCondition(NamedTuple):
    """A condition of a service, as labels."""

    namespace: str
    name: str
    type: str
    status: str
    reason: str


@dataclass(frozen=True)
class Snapshot:
    """The operator's state; ``running`` is the number of seconds since its start.

    ``discovered``: whether the API server has said which kinds and namespaces there are to watch. ``pause``: for how
    many seconds more requests wait, because the API server has asked for that. ``refused_config``: why the present
    ConfigMap cannot be used, empty if it is used. ``configured``: whether there is a configuration, if only an older
    one. ``contested``: children that others change or delete whenever they are restored. ``conditions``: those of the
    services that this replica reconciles.
    """

    running: float = 0.0
    discovered: bool = False
    leader: bool = True
    pause: float = 0.0
    refused_config: str = ""
    configured: bool = True
    queue: QueueState = field(default_factory=QueueState)
    watches: tuple[WatchState, ...] = ()
    contested: int = 0
    services: Mapping[Phase, int] = field(default_factory=dict)
    conditions: Sequence[ServiceCondition] = ()


def not_alive(snapshot: Snapshot) -> list[str]:
    """Return why a restart may help, none if the operator is alive: a silent watch, or a queue that does not move."""
    problems = [
        f"the watch of {watch.path} has heard nothing from the API server for {watch.silent:.0f} s"
        for watch in snapshot.watches
        if watch.silent > WATCH_SILENT_SECONDS
    ]
    if not snapshot.discovered and snapshot.running > WATCH_SILENT_SECONDS:
        problems.append(f"the API server has not said in {snapshot.running:.0f} s what there is to watch")
    queue = snapshot.queue
    if queue.still > QUEUE_STILL_SECONDS:
        problems.append(f"{queue.waiting} services wait, and for {queue.still:.0f} s no reconcile has begun or ended")
    return problems


def not_ready(snapshot: Snapshot) -> list[str]:
    """Return why the operator cannot reconcile yet: it has no configuration, or a watched kind has not been listed."""
    if not snapshot.configured:
        return [snapshot.refused_config or "the configuration has not been read yet"]
    if not snapshot.discovered:
        return ["the API server has not said yet what there is to watch"]
    return [f"{watch.path} has not been listed yet" for watch in snapshot.watches if not watch.listed]
