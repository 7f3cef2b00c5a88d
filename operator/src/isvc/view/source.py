"""Where what is seen comes from: the watches of a cluster, or the processes of ``isvc run``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from isvc_operator.manifests import Event, Manifest, ServiceKey

Shown = str  # the name of a kind whose objects are shown, or LOG
LOG: Final[Shown] = "Log"


@dataclass(frozen=True, kw_only=True)
class ContainerKey:
    """A container of a pod of a service."""

    service: ServiceKey
    pod: str
    container: str


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Which part of a container's log: its last ``lines``, none older than ``since_seconds``.

    ``follow``: until the container ends. ``previous``: that of the instance before the last restart.
    """

    lines: int
    follow: bool = False
    previous: bool = False
    since_seconds: int | None = None


@dataclass(frozen=True, kw_only=True)
class Related:
    """A service and the objects that belong to it, all as Kubernetes has them.

    On a laptop they are what a cluster would have: pods with their status from the processes, Deployments with theirs.
    ``runtimes`` are those that the service may use. ``logs`` has the last lines of containers that have failed or are
    not ready, and the last line of a storage-initializer that copies.
    """

    service: Manifest
    children: Sequence[Manifest] = ()
    pods: Sequence[Manifest] = ()
    events: Sequence[Event] = ()
    runtimes: Sequence[Manifest] = ()
    logs: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def without(self, hidden: frozenset[Shown]) -> Related:
        """Return what is left for somebody who may not see objects of these kinds."""
        if not hidden:
            return self
        return Related(
            service=self.service,
            children=[item for item in self.children if item["kind"] not in hidden],
            pods=() if "Pod" in hidden else self.pods,
            events=() if "Event" in hidden else self.events,
            runtimes=[item for item in self.runtimes if item["kind"] not in hidden],
            logs={} if hidden & {LOG, "Pod"} else self.logs,
        )


@dataclass(frozen=True, kw_only=True)
class ServiceRequest:
    """A request to a service: ``path`` begins with ``/v1/`` or ``/v2/``."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, kw_only=True)
class ServiceResponse:
    """The response of a service; ``seconds`` is the time from the request to the last byte."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float


class Reachable(Protocol):
    """Logs of containers, and services that respond; its methods raise OperatorError with a message for people."""

    def log(self, key: ContainerKey, options: LogOptions) -> AsyncGenerator[tuple[str | None, str], None]:
        """Yield the lines of a container's log with their times.

        Whoever does not read to the end has to close it (``contextlib.aclosing``): it may hold a connection.
        """
        ...

    async def send(self, key: ServiceKey, request: ServiceRequest) -> ServiceResponse:
        """Send a request to the service by the way that its clients use."""
        ...


class ServiceSource(Reachable, Protocol):
    """What the dashboard, ``isvc status`` and the other readers are given.

    Its methods raise OperatorError with a message for people.
    """

    def keys(self) -> Sequence[ServiceKey]:
        """Return the services that there are, in the order of their names."""
        ...

    def related(self, key: ServiceKey) -> Related | None:
        """Return the service with its objects as known now; None if it does not exist."""
        ...

    def address(self, key: ServiceKey) -> str:
        """Return the URL by which clients reach the service, without a slash at its end; empty if it has none."""
        ...

    def changes(self) -> AsyncIterator[frozenset[ServiceKey]]:
        """Yield the services that have changed since the last item, at most some times a second."""
        ...

    def hidden(self) -> Sequence[str]:
        """Return what the reader may not see, each in a sentence for people."""
        ...

    def silent(self) -> float:
        """Return for how many seconds nothing could be heard from where the services are; 0 while it can."""
        ...

    async def metrics(self, key: ServiceKey, pod: str) -> str:
        """Return the metrics of a pod's server in Prometheus' text format; empty if it has none."""
        ...
