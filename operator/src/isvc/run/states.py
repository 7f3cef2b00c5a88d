"""The states of a pod's containers, and the status that a kubelet writes from them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Waiting:
    """Not started yet, or not again."""

    reason: str
    message: str = ""


@dataclass(frozen=True)
class Started:
    """Running since then; ``id`` is that of the process."""

    at: str
    id: int


@dataclass(frozen=True)
class Ended:
    """How it has ended."""

    exit_code: int
    reason: str
    message: str
    started_at: str
    at: str
    id: int = 0


State = Waiting | Started | Ended


@dataclass(frozen=True)
class ContainerStatus:
    """A container of a pod. ``last`` is how its previous instance has ended; ``restarts`` counts the others."""

    name: str
    image: str
    state: State
    last: Ended | None = None
    ready: bool = False
    started: bool = False
    restarts: int = 0

    def waits(self, reason: str, message: str = "") -> ContainerStatus:
        """Return the container as it waits for its start; one that has ended keeps how."""
        last = self.state if isinstance(self.state, Ended) else self.last
        return replace(self, state=Waiting(reason, message), last=last, ready=False, started=False)

    def runs(self, at: str, id_: int) -> ContainerStatus:
        """Return the container as it has been started."""
        ended = self.state if isinstance(self.state, Ended) else self.last
        restarts = self.restarts + (ended is not None)
        return replace(self, state=Started(at, id_), last=ended, ready=False, started=False, restarts=restarts)

    def ends(self, how: Ended) -> ContainerStatus:
        """Return the container as it has ended."""
        return replace(self, state=how, ready=False, started=False)


@dataclass(frozen=True)
class PodState:
    """The containers of a pod by their names, in the order of its spec."""

    init: Mapping[str, ContainerStatus]
    servers: Mapping[str, ContainerStatus]

    def of(self, name: str) -> ContainerStatus:
        """Return a container."""
        return self.init.get(name) or self.servers[name]

    def having(self, container: ContainerStatus) -> PodState:
        """Return the pod with another state of one container."""
        if container.name in self.init:
            return replace(self, init={**self.init, container.name: container})
        return replace(self, servers={**self.servers, container.name: container})

    @property
    def is_initialized(self) -> bool:
        """Whether each init container has succeeded."""
        return all(_succeeded(item) for item in self.init.values())

    @property
    def is_ready(self) -> bool:
        """Whether each container is ready."""
        return self.is_initialized and all(item.ready for item in self.servers.values())


def initial_state(spec: Mapping[str, Any]) -> PodState:
    """Return the state of a pod of which nothing is started."""

    def waiting(containers: Sequence[Mapping[str, Any]]) -> dict[str, ContainerStatus]:
        return {
            item["name"]: ContainerStatus(item["name"], item.get("image", ""), Waiting("PodInitializing"))
            for item in containers
        }

    return PodState(waiting(spec.get("initContainers", ())), waiting(spec["containers"]))


def pod_status(pod: PodState, before: Mapping[str, Any], created_at: str, now: str) -> dict[str, Any]:
    """Return the status of a pod; conditions that are as ``before`` keep the times of their transition."""
    times = {item["type"]: (item["status"], item["lastTransitionTime"]) for item in before.get("conditions", ())}
    conditions = []
    for type_, status, reason, message in _conditions(pod):
        text = "True" if status else "False"
        known, since = times.get(type_, (text, created_at))
        conditions.append(
            {"type": type_, "status": text, "lastTransitionTime": since if known == text else now}
            | ({"reason": reason, "message": message} if reason else {})
        )
    begun = pod.is_initialized and any(
        not isinstance(item.state, Waiting) or item.last for item in pod.servers.values()
    )
    return {
        "phase": "Running" if begun else "Pending",
        "conditions": conditions,
        "hostIP": "127.0.0.1",
        "podIP": "127.0.0.1",
        "startTime": created_at,
        "qosClass": "Burstable",
        "initContainerStatuses": [_status(item, ready=_succeeded(item)) for item in pod.init.values()],
        "containerStatuses": [_status(item, ready=item.ready) for item in pod.servers.values()],
    }


def _conditions(pod: PodState) -> Iterator[tuple[str, bool, str, str]]:
    yield "PodScheduled", True, "", ""
    incomplete = [item.name for item in pod.init.values() if not _succeeded(item)]
    yield "Initialized", not incomplete, *_unless("ContainersNotInitialized", "incomplete", incomplete)
    unready = [item.name for item in pod.servers.values() if not item.ready]
    for type_ in ("ContainersReady", "Ready"):
        yield type_, pod.is_ready, *_unless("ContainersNotReady", "unready", unready)


def _unless(reason: str, how: str, names: Sequence[str]) -> tuple[str, str]:
    return (reason, f"containers with {how} status: [{' '.join(names)}]") if names else ("", "")


def _succeeded(container: ContainerStatus) -> bool:
    return isinstance(container.state, Ended) and container.state.exit_code == 0


def _status(container: ContainerStatus, *, ready: bool) -> dict[str, Any]:
    status = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": ready,
        "started": container.started,
        "restartCount": container.restarts,
        "state": _state(container.state),
        "lastState": _state(container.last) if container.last else {},
    }
    return status if isinstance(container.state, Waiting) else status | {"containerID": _id(container.state.id)}


def _state(state: State) -> dict[str, Any]:
    match state:
        case Waiting(reason, message):
            return {"waiting": {"reason": reason} | ({"message": message} if message else {})}
        case Started(at):
            return {"running": {"startedAt": at}}
        case Ended():
            ended = {
                "exitCode": state.exit_code,
                "reason": state.reason,
                "startedAt": state.started_at,
                "finishedAt": state.at,
                "containerID": _id(state.id),
            }
            return {"terminated": ended | ({"message": state.message} if state.message else {})}


def _id(process: int) -> str:
    return f"process://{process}"
