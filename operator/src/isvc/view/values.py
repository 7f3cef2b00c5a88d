"""The values that are seen: a service with its components, pods, containers, conditions and history.

Texts in them are from outside (names, logs, messages): who prints them makes them safe for a terminal or for HTML.
Times are RFC 3339, as Kubernetes writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

ROLLING_OUT: Final = "Rolling out"  # the word for it, where that for the health would be
OLDER_SERVE: Final = "the pods from before the change serve on"


class HealthStatus(Enum):
    """How a service, a component or a pod is; the first words of a list."""

    READY = "Ready"
    STARTING = "Starting"
    FAILED = "Failed"
    STOPPED = "Stopped"
    TERMINATING = "Terminating"


class ContainerState(Enum):
    """The state of a container, as Kubernetes has it."""

    WAITING = "Waiting"
    RUNNING = "Running"
    TERMINATED = "Terminated"


class Purpose(Enum):
    """What a container is for."""

    INIT = "init"
    STORAGE = "storage-initializer"
    SERVER = "server"
    SIDECAR = "sidecar"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a service, a component or a pod is not ready: one cause, its evidence and its fix.

    ``reason`` is that of the condition, ``location`` the pod and the container; ``log`` has the last lines.
    """

    reason: str
    cause: str
    fix: str = ""
    location: str = ""
    exit_code: int | None = None
    log: str = ""


@dataclass(frozen=True, kw_only=True)
class DownloadProgress:
    """How far the download of a model is; sizes and rates are texts with units, as the container logs them."""

    percent: int | None = None
    size: str = ""
    rate: str = ""
    seconds_left: int | None = None


@dataclass(frozen=True, kw_only=True)
class ContainerEnd:
    """How and when an instance of a container has ended."""

    reason: str = ""
    exit_code: int | None = None
    started_at: str | None = None
    ended_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class ContainerView:
    """A container of a pod. ``reason``, ``message`` and ``exit_code`` are those of its last end, or why it waits.

    The times are those of its present instance, None while it waits; ``last`` is the end of the instance before.
    """

    name: str
    purpose: Purpose
    state: ContainerState
    image: str = ""
    ready: bool = False
    restarts: int = 0
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    started_at: str | None = None
    ended_at: str | None = None
    last: ContainerEnd | None = None


@dataclass(frozen=True, kw_only=True)
class PodView:
    """A pod of a component. ``stage`` is that of its start, as in the reason of a condition; empty if it is ready.

    ``stage_since`` is when the container was started that the stage waits for, None if it waits for another thing.
    ``current``: it has the newest template of its component. ``ready_at`` is when it became ready, last;
    ``first_ready_at`` is when it did so first, None if that is not known.
    """

    name: str
    health: HealthStatus
    created_at: str
    current: bool = True
    stage: str = ""
    stage_since: str | None = None
    message: str = ""
    node: str = ""
    ready_at: str | None = None
    first_ready_at: str | None = None
    progress: DownloadProgress | None = None
    failure: Failure | None = None
    containers: Sequence[ContainerView] = ()


@dataclass(frozen=True, kw_only=True)
class ComponentView:
    """A component of a service. ``wanted``, ``updated`` and ``available`` count pods.

    ``traffic`` is its share of the service's requests in per cent; None if it gets those of another component.
    ``fails_at`` is when a start counts as failed, if nothing changes until then.
    """

    kind: str
    name: str
    health: HealthStatus
    stage: str = ""
    message: str = ""
    fails_at: str | None = None
    wanted: int = 0
    updated: int = 0
    available: int = 0
    traffic: int | None = None
    url: str = ""
    pods: Sequence[PodView] = ()
    failure: Failure | None = None

    @property
    def fails_beside_older(self) -> bool:
        """Whether its newest pods have failed, or it can have none, while older ones have the requests."""
        return self.health is HealthStatus.FAILED and (self.has_older or 0 < self.wanted <= self.available)

    @property
    def has_older(self) -> bool:
        """Whether pods of an older template are ready, and so have the requests."""
        return any(not pod.current and pod.health is HealthStatus.READY for pod in self.pods)

    @property
    def is_rolling(self) -> bool:
        """Whether older pods serve while newer ones start."""
        return self.has_older and self.health in (HealthStatus.READY, HealthStatus.STARTING)

    @property
    def rollout(self) -> str:
        """How many of its pods serve while it is rolling out, of the newer and of the older ones."""
        ready = [pod for pod in self.pods if pod.health is HealthStatus.READY]
        newer = sum(pod.current for pod in ready)
        older = len(ready) - newer
        return f"{newer} of {self.wanted} newer pods ready; {older} older {'serves' if older == 1 else 'serve'}"


@dataclass(frozen=True, kw_only=True)
class ConditionView:
    """A condition of the service."""

    type: str
    status: str
    severity: str = ""
    reason: str = ""
    message: str = ""
    changed_at: str | None = None


class HistorySource(Enum):
    """Where an entry of the history is from."""

    SERVICE = "service"  # applied, changed, became ready
    CONDITION = "condition"
    POD = "pod"  # created, scheduled, ready
    CONTAINER = "container"  # started, ended
    EVENT = "event"


@dataclass(frozen=True, kw_only=True)
class Moment:
    """An entry of a service's history, from apply to now. ``warning``: an Event of that type, or a failure.

    ``about`` names the object (``Pod/name``, ``Pod/name container``); ``count`` is how often an Event has occurred.
    """

    at: str
    source: HistorySource
    about: str
    reason: str
    message: str = ""
    warning: bool = False
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Hop:
    """A step on the request path: ``Ingress``, ``transformer``, ``predictor``; ``weight`` is in per cent."""

    name: str
    kind: str
    target: str = ""
    weight: int | None = None


@dataclass(frozen=True, kw_only=True)
class RuntimeView:
    """The runtime that serves the model, and why it was chosen."""

    name: str
    cluster_wide: bool = False
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class ServiceView:
    """An InferenceService as people see it; ``stage`` and ``message`` are those of its condition ``Ready``.

    ``observed_generation`` is the generation that the operator's status is of.
    """

    namespace: str
    name: str
    health: HealthStatus
    created_at: str = ""
    generation: int = 0
    observed_generation: int = 0
    stage: str = ""
    message: str = ""
    url: str = ""
    runtime: RuntimeView | None = None
    components: Sequence[ComponentView] = ()
    request_path: Sequence[Hop] = ()
    conditions: Sequence[ConditionView] = ()
    history: Sequence[Moment] = ()
    failure: Failure | None = None

    @property
    def is_rolling(self) -> bool:
        """Whether a component is rolling out, and no other one has failed."""
        return self.health in (HealthStatus.READY, HealthStatus.STARTING) and any(
            item.is_rolling for item in self.components
        )

    @property
    def rollout(self) -> str:
        """How far the components are that are rolling out."""
        return "; ".join(item.rollout for item in self.components if item.is_rolling)
