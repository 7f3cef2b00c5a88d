"""The logs of the containers of a service: those that exist, and those that come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

from isvc.commands.seen.reading import seen
from isvc.limits import LOG_LINES
from isvc.view.source import ContainerKey, LogOptions, ServiceSource
from isvc.view.values import ContainerState, ServiceView
from isvc_operator.errors import OperatorError
from isvc_operator.kube.errors import KubeError
from isvc_operator.manifests import ServiceKey


class NoSuchContainer(OperatorError):
    """No container of the service has a log that was asked for."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which logs: of one component, of the containers of one name, of the instances before the last restart."""

    component: str | None = None
    container: str | None = None
    previous: bool = False
    lines: int = 100
    since_seconds: int | None = None


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """A line of a container's log; ``at`` is its time, or empty."""

    at: str
    pod: str
    container: str
    text: str


@dataclass(frozen=True)
class _Instance:
    """A container between two restarts."""

    pod: str
    container: str
    restarts: int

    def line(self, at: str | None, text: str) -> LogLine:
        """Return a line of its log."""
        return LogLine(at=at or "", pod=self.pod, container=self.container, text=text)


async def past_lines(source: ServiceSource, key: ServiceKey, wanted: Wanted) -> list[LogLine]:
    """Return the lines of all containers in the order of their times; raises NoSuchContainer.

    A log that cannot be read is a line that says so; raises KubeError if that holds for all.
    """
    service = seen(source, key)
    instances = [*_instances(service, wanted)]
    if not instances:
        raise NoSuchContainer(_missing(service, wanted))
    reading = (_lines_of(source, key, item, wanted) for item in instances)
    found = dict(zip(instances, await asyncio.gather(*reading), strict=True))
    errors = {item: lines for item, lines in found.items() if isinstance(lines, KubeError)}
    if len(errors) == len(instances):
        raise next(iter(errors.values()))
    notes = [item.line("", f"isvc: the log cannot be read: {error}") for item, error in errors.items()]
    lines = [line for lines in found.values() if not isinstance(lines, KubeError) for line in lines]
    return [*notes, *sorted(lines, key=lambda line: line.at)]


async def follow(source: ServiceSource, key: ServiceKey, wanted: Wanted, write: Callable[[LogLine], None]) -> None:
    """Write the lines of all containers as they come, also of pods and instances that start later; until cancelled."""

    async def read(instance: _Instance, lines: int) -> None:
        options = LogOptions(lines=lines, follow=True, since_seconds=wanted.since_seconds)
        try:
            async with aclosing(source.log(_key(key, instance), options)) as log:
                async for at, text in log:
                    write(instance.line(at, text))
        except KubeError as error:  # the pod is gone, or its node does not respond
            write(instance.line(None, f"isvc: the log ends here: {error}"))

    known: set[_Instance] = set()
    lines = wanted.lines
    async with asyncio.TaskGroup() as tasks:
        changes = source.changes()
        while True:
            service = seen(source, key) if source.related(key) else None
            for instance in _instances(service, wanted) if service else ():
                if instance not in known:
                    known.add(instance)
                    tasks.create_task(read(instance, lines))
            lines = LOG_LINES
            while key not in await anext(changes):
                pass


async def _lines_of(
    source: ServiceSource, key: ServiceKey, instance: _Instance, wanted: Wanted
) -> list[LogLine] | KubeError:
    """Return the lines; one without a time has that of the line before it."""
    found: list[LogLine] = []
    options = LogOptions(lines=wanted.lines, previous=wanted.previous, since_seconds=wanted.since_seconds)
    try:
        async with aclosing(source.log(_key(key, instance), options)) as log:
            async for at, text in log:
                found.append(instance.line(at or (found[-1].at if found else None), text))
    except KubeError as error:
        return error
    return found


def _key(service: ServiceKey, instance: _Instance) -> ContainerKey:
    return ContainerKey(service=service, pod=instance.pod, container=instance.container)


def _instances(service: ServiceView, wanted: Wanted) -> Iterator[_Instance]:
    """Yield the containers that have a log."""
    for component in service.components:
        for pod in component.pods if wanted.component in (None, component.kind) else ():
            for container in pod.containers:
                has_run = container.state is not ContainerState.WAITING or container.restarts > 0
                has_log = container.restarts > 0 if wanted.previous else has_run
                if has_log and wanted.container in (None, container.name):
                    yield _Instance(pod.name, container.name, container.restarts)


def _missing(service: ServiceView, wanted: Wanted) -> str:
    pods = [(item.kind, pod) for item in service.components for pod in item.pods]
    if not pods:
        return f"InferenceService {service.name} has no pods; isvc diagnose {service.name} says why"
    containers = ", ".join(dict.fromkeys(item.name for _, pod in pods for item in pod.containers)) or "none yet"
    components = ", ".join(dict.fromkeys(kind for kind, _ in pods))
    what = "no container has been restarted" if wanted.previous else "no such container has a log"
    return (
        f"{what}: InferenceService {service.name} has the components {components} with pods, and the containers "
        f"{containers}"
    )
