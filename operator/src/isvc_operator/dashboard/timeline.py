"""Where a start spent its time: the parts of each pod's start, on the line from apply to Ready. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from isvc_operator.dashboard.markup import moment
from isvc_operator.view.values import Container, ContainerState, Pod, Purpose, Service

_APPLIED_BEFORE = 600.0  # seconds from apply to the first pod, beyond which the pods are of a later rollout
_LABELS = {
    Purpose.STORAGE: "copies the model",
    Purpose.SERVER: "starts and loads the model",
    Purpose.INIT: "init container",
    Purpose.SIDECAR: "starts",
}


class Kind(Enum):
    """What a part of a start was spent on."""

    WAITING = "waiting"
    INIT = "init"
    STORAGE = "storage"
    SERVER = "server"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a pod's start; times are seconds since the line begins. ``going``: it has not ended."""

    kind: Kind
    name: str
    start: float
    seconds: float
    going: bool = False
    failed: bool = False


@dataclass(frozen=True, kw_only=True)
class Lane:
    """The start of a pod: its parts in order, and when it was ready."""

    pod: str
    parts: Sequence[Part]
    ready: float | None

    @property
    def slowest(self) -> Part | None:
        """Return the part that took the longest."""
        return max(self.parts, key=lambda part: part.seconds, default=None)


@dataclass(frozen=True, kw_only=True)
class Line:
    """The lanes of the newest pods; ``seconds`` is its length and ``begins`` its first moment."""

    begins: datetime
    seconds: float
    lanes: Sequence[Lane]
    ticks: Sequence[float]


def line_of(service: Service, now: datetime) -> Line | None:
    """Return the line of the start of a service's current pods; None without pods."""
    pods = [pod for component in service.components for pod in component.pods if pod.current]
    created = [at for pod in pods if (at := moment(pod.created_at))]
    if not created:
        return None
    begins, applied = min(created), moment(service.created_at)
    if applied and 0 <= (begins - applied).total_seconds() <= _APPLIED_BEFORE:
        begins = applied
    lanes = [_lane(pod, begins, now) for pod in pods]
    ends = [part.start + part.seconds for lane in lanes for part in lane.parts]
    ends += [lane.ready for lane in lanes if lane.ready is not None]
    length = max([1.0, *ends])
    return Line(begins=begins, seconds=length, lanes=lanes, ticks=ticks(length))


def ticks(length: float) -> Sequence[float]:
    """Return at most seven round numbers from 0 to ``length`` seconds."""
    for step in (0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400):
        if length / step <= 6:
            return [step * number for number in range(int(length / step) + 1)]
    return [0.0]


def _lane(pod: Pod, begins: datetime, now: datetime) -> Lane:
    ready = _after(begins, pod.ready_at)
    return Lane(pod=pod.name, parts=list(_parts(pod, begins, now.astimezone(UTC), ready)), ready=ready)


def _parts(pod: Pod, begins: datetime, now: datetime, ready: float | None) -> Iterator[Part]:
    present = (now - begins).total_seconds()
    reached = _after(begins, pod.created_at) or 0.0
    started = [container for container in pod.containers if container.started_at]
    for container in sorted(started, key=lambda item: (item.started_at or "", _is_server(item))):
        start = _after(begins, container.started_at) or 0.0
        if start - reached >= 1:
            name = "waits for a node, volumes and images" if container is started[0] else "prepares the next container"
            yield Part(kind=Kind.WAITING, name=name, start=reached, seconds=start - reached)
        end = _after(begins, container.ended_at)
        if end is None and _is_server(container):
            end = ready
        stop = max(start, present if end is None else end)
        yield Part(
            kind=_kind(container),
            name=f"{container.name} {_LABELS[container.purpose]}",
            start=start,
            seconds=stop - start,
            going=end is None,
            failed=bool(container.exit_code) and container.state is not ContainerState.RUNNING,
        )
        reached = max(reached, stop)
    if not started and ready is None:
        yield Part(
            kind=Kind.WAITING,
            name="waits for a node, volumes and images",
            start=reached,
            seconds=max(0.0, present - reached),
            going=True,
        )


def _is_server(container: Container) -> bool:
    return container.purpose in (Purpose.SERVER, Purpose.SIDECAR)


def _kind(container: Container) -> Kind:
    if container.purpose is Purpose.STORAGE:
        return Kind.STORAGE
    return Kind.SERVER if _is_server(container) else Kind.INIT


def _after(begins: datetime, at: str | None) -> float | None:
    then = moment(at)
    return (then - begins).total_seconds() if then else None
