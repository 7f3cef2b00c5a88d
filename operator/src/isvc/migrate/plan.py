"""The plan of a change-over: what is found in the cluster and for each service, and how it is printed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from isvc.migrate.names import KSERVE_MANAGER, KSERVE_NAMESPACE
from isvc.view.json_shape import as_json
from isvc_operator.api.names import CONFIG_MAP
from isvc_operator.config import parse_config
from isvc_operator.errors import ConfigError
from isvc_operator.manifests import Manifest

_LEADER_ELECTION = ("--leader-elect", "--leader-elect=true", "-leader-elect", "-leader-elect=true")


class Level(Enum):
    """What a line of the plan means: nothing to do, something to know, or a reason not to begin."""

    OK = "ok"
    WARNING = "warning"
    BLOCKING = "blocking"


@dataclass(frozen=True)
class PlanLine:
    level: Level
    text: str


def ok(text: str) -> PlanLine:
    """Return a change that needs no attention."""
    return PlanLine(Level.OK, text)


def warning(text: str) -> PlanLine:
    """Return something that its owner should know before."""
    return PlanLine(Level.WARNING, text)


def blocking(text: str) -> PlanLine:
    """Return a reason not to change over."""
    return PlanLine(Level.BLOCKING, text)


@dataclass(frozen=True)
class ServiceMigration:
    namespace: str
    name: str
    lines: tuple[PlanLine, ...]


@dataclass(frozen=True)
class MigrationPlan:
    """What is found for the cluster, and for each of its services."""

    cluster: tuple[PlanLine, ...]
    services: tuple[ServiceMigration, ...]

    @property
    def worst(self) -> Level:
        found = {item.level for item in self.cluster} | {
            item.level for service in self.services for item in service.lines
        }
        order = (Level.BLOCKING, Level.WARNING)
        return next((level for level in order if level in found), Level.OK)

    def as_data(self) -> dict[str, object]:
        """Return the plan as plain values; each level is ok, warning or blocking."""
        return {
            "level": self.worst.value,
            "cluster": as_json(self.cluster),
            "services": [
                {
                    "namespace": service.namespace,
                    "name": service.name,
                    "level": _worst_of(service.lines).value,
                    "lines": as_json(service.lines),
                }
                for service in self.services
            ],
        }

    def lines(self) -> Iterator[str]:
        yield from _section("cluster", self.cluster)
        for service in self.services:
            yield from _section(f"{service.namespace}/{service.name}", service.lines)
        counts = dict.fromkeys(Level, 0)
        for service in self.services:
            counts[_worst_of(service.lines)] += 1
        summary = ", ".join(f"{number} {level.value}" for level, number in counts.items())
        yield f"{len(self.services)} services: {summary}"


def _section(title: str, lines: tuple[PlanLine, ...]) -> Iterator[str]:
    if lines:
        yield title
        yield from (f"  {item.level.value:<9}{item.text}" for item in lines)


def _worst_of(lines: tuple[PlanLine, ...]) -> Level:
    return MigrationPlan(lines, ()).worst


def check_cluster(
    *, manager: Manifest | None, kserve_config: Mapping[str, str], config: Mapping[str, str], staying: Mapping[str, int]
) -> tuple[PlanLine, ...]:
    """Return what concerns more than one service.

    ``config`` is what the operator will read, ``staying`` the number of objects of each kind that stays with KServe.
    """
    return (
        *_of_manager(manager),
        *_of_config(kserve_config, config),
        *(
            warning(
                f"{number} {kind} stay with KServe: they keep running, but KServe's manager acts on no change of them "
                "while it is stopped, and uninstalling KServe deletes them"
            )
            for kind, number in staying.items()
            if number
        ),
    )


def _of_manager(manager: Manifest | None) -> Iterator[PlanLine]:
    name = f"Deployment {KSERVE_MANAGER} in namespace {KSERVE_NAMESPACE}"
    if manager is None:
        yield blocking(f"{name} does not exist: there is nothing to change over from")
    elif not electing_containers(manager):
        yield blocking(
            f"{name} runs without --leader-elect, by which its controllers are paused while its webhooks serve; add it"
        )


def electing_containers(manager: Manifest) -> list[str]:
    """Return the containers whose controllers wait for a lease; in KServe's own manifests, the manager's."""
    containers = manager["spec"]["template"]["spec"]["containers"]
    flags = {item["name"]: {*item.get("command", ()), *item.get("args", ())} for item in containers}
    return [name for name, given in flags.items() if given.intersection(_LEADER_ELECTION)]


def _of_config(kserves: Mapping[str, str], ours: Mapping[str, str]) -> Iterator[PlanLine]:
    name = f"ConfigMap {CONFIG_MAP} of namespace {KSERVE_NAMESPACE}"
    if not kserves:
        return
    try:
        before, after = (parse_config(data).model_dump(by_alias=True) for data in (kserves, ours))
    except ConfigError as error:
        yield warning(f"{name} is not read; it is not valid here: {error}")
        return
    fields = [
        f"{key}.{field}" for key, section in before.items() for field in section if section[field] != after[key][field]
    ]
    if fields:
        yield warning(f"{name} is not read; the operator's own has other values of {', '.join(fields)}")
