"""Where a start spent its time: the parts of each pod's start, from its creation to Ready. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from isvc.view.times import parse_time
from isvc.view.values import ContainerState, ContainerView, HealthStatus, PodView, Purpose, ServiceView

_APPLIED_BEFORE = 600.0  # seconds from apply to the first pod, beyond which the pods are of a later rollout
_WAITS = "waits for a node, volumes and images"
_PREPARES = "prepares the next container"
_LABELS = {
    Purpose.STORAGE: "copies the model",
    Purpose.SERVER: "starts and loads the model",
    Purpose.INIT: "init container",
    Purpose.SIDECAR: "starts",
}


class PartKind(Enum):
    """What a part of a start was spent on."""

    WAITING = "waiting"
    INIT = "init"
    STORAGE = "storage"
    SERVER = "server"


@dataclass(frozen=True, kw_only=True)
class TimelinePart:
    """A part of a pod's start; times are seconds since the pod was created. ``going``: it has not ended."""

    kind: PartKind
    name: str
    start: float
    seconds: float
    going: bool = False
    failed: bool = False


@dataclass(frozen=True, kw_only=True)
class Lane:
    """The start of a pod: its parts in order, and after how many seconds it was ready first.

    Unless ``is_known``, when that was is forgotten.
    """

    pod: str
    parts: Sequence[TimelinePart]
    ready: float | None
    is_known: bool = True

    @property
    def slowest(self) -> TimelinePart | None:
        """Return the part that took the longest."""
        return max(self.parts, key=lambda part: part.seconds, default=None)


@dataclass(frozen=True, kw_only=True)
class Line:
    """The lanes of the newest pods; ``seconds`` is the length of the longest, ``begins`` when the first start began."""

    begins: datetime
    seconds: float
    lanes: Sequence[Lane]
    ticks: Sequence[float]


def line_of(service: ServiceView, now: datetime) -> Line | None:
    """Return the line of the start of a service's current pods; None without pods."""
    pods = [pod for component in service.components for pod in component.pods if pod.current]
    created = {pod.name: at for pod in pods if (at := parse_time(pod.created_at))}
    if not created:
        return None
    begins, applied = min(created.values()), parse_time(service.created_at)
    if applied and 0 <= (begins - applied).total_seconds() <= _APPLIED_BEFORE:
        begins = applied
    lanes = [_lane(pod, created[pod.name], now) for pod in pods if pod.name in created]
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


def _lane(pod: PodView, begins: datetime, now: datetime) -> Lane:
    ready = _after(begins, pod.first_ready_at)
    is_known = ready is not None or pod.health is not HealthStatus.READY
    parts = list(_parts(pod, begins, now.astimezone(UTC), ready)) if is_known else []
    return Lane(pod=pod.name, parts=parts, ready=ready, is_known=is_known)


@dataclass(frozen=True)
class _Instance:
    """An instance of a container, in seconds since its pod was created; ``end`` is None while it runs.

    ``before`` is what the time before it was spent on; empty for the first instance of its container.
    """

    container: ContainerView
    start: float
    end: float | None
    failed: bool
    before: str = ""


def _instances(container: ContainerView, begins: datetime) -> Iterator[_Instance]:
    """Yield those that Kubernetes knows, which are the last two."""
    last = container.last
    if last and (start := _after(begins, last.started_at)) is not None:
        end = _after(begins, last.ended_at)
        earlier = container.restarts - (container.state is not ContainerState.WAITING)
        before = f"{container.name} starts and fails {_times(earlier)}" if earlier > 0 else ""
        yield _Instance(container, start, start if end is None else end, bool(last.exit_code), before)
    if (start := _after(begins, container.started_at)) is not None:
        has_failed = bool(container.exit_code) and container.state is not ContainerState.RUNNING
        before = _restart(container) if last else ""
        yield _Instance(container, start, _after(begins, container.ended_at), has_failed, before)


def _parts(pod: PodView, begins: datetime, now: datetime, ready: float | None) -> Iterator[TimelinePart]:
    """Yield the parts up to the first time that the pod was ready; what its containers did later is not a start."""
    present = (now - begins).total_seconds()
    reached, following = _after(begins, pod.created_at) or 0.0, _WAITS
    instances = [item for container in pod.containers for item in _instances(container, begins)]
    started = [item for item in instances if ready is None or item.start <= ready]
    for instance in sorted(started, key=lambda item: (item.start, _is_server(item.container))):
        container, start = instance.container, instance.start
        if start - reached >= 1:
            name = instance.before or following
            yield TimelinePart(kind=PartKind.WAITING, name=name, start=reached, seconds=start - reached)
        following = _restart(container) if container.state is ContainerState.WAITING else _PREPARES
        end = instance.end
        if ready is not None and _is_server(container):
            end = ready if end is None else min(end, ready)
        stop = max(start, present if end is None else end)
        yield TimelinePart(
            kind=_kind(container),
            name=_name(container),
            start=start,
            seconds=stop - start,
            going=end is None,
            failed=instance.failed and end == instance.end,
        )
        reached = max(reached, stop)
    servers = [container for container in pod.containers if container.purpose is Purpose.SERVER]
    if ready is not None and servers and not any(item.container in servers for item in started):
        # It has been restarted so often since that the times of its start are forgotten.
        seconds = max(0.0, ready - reached)
        yield TimelinePart(kind=PartKind.SERVER, name=_name(servers[0]), start=reached, seconds=seconds)
    elif ready is None and _waits(pod, started):
        seconds = max(0.0, present - reached)
        yield TimelinePart(kind=PartKind.WAITING, name=following, start=reached, seconds=seconds, going=True)


def _waits(pod: PodView, started: Sequence[_Instance]) -> bool:
    """Whether no container of a pod runs, and one is to be started."""
    is_next = any(container.state is ContainerState.WAITING for container in pod.containers)
    return not started or (is_next and all(instance.end is not None for instance in started))


def _restart(container: ContainerView) -> str:
    return f"{container.name} waits to be restarted"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _name(container: ContainerView) -> str:
    return f"{container.name} {_LABELS[container.purpose]}"


def _is_server(container: ContainerView) -> bool:
    return container.purpose in (Purpose.SERVER, Purpose.SIDECAR)


def _kind(container: ContainerView) -> PartKind:
    if container.purpose is Purpose.STORAGE:
        return PartKind.STORAGE
    return PartKind.SERVER if _is_server(container) else PartKind.INIT


def _after(begins: datetime, at: str | None) -> float | None:
    then = parse_time(at)
    return (then - begins).total_seconds() if then else None
