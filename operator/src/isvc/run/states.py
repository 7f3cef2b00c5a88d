"""The status of a pod, as a kubelet writes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from isvc.run.log import Log

if TYPE_CHECKING:
    from isvc.run.processes import Running

State = Mapping[str, Mapping[str, Any]]  # "waiting", "running" or "terminated", and what belongs to it


@dataclass
class ContainerStatus:
    """A container of a pod. ``last_state`` is how its previous instance has ended; ``restarts`` counts the others.

    ``log`` is that of its last instance, ``running`` its process while there is one.
    """

    name: str
    image: str
    state: State = field(default_factory=lambda: {"waiting": {"reason": "PodInitializing"}})
    last_state: State = field(default_factory=dict)
    ready: bool = False
    started: bool = False
    restarts: int = 0
    log: Log = field(default_factory=Log, compare=False)
    previous_log: Log = field(default_factory=Log, compare=False)
    running: Running | None = None

    def wait(self, reason: str, message: str) -> None:
        """It waits for its start."""
        self._enter({"waiting": {"reason": reason, "message": message}})

    def run(self, at: str) -> None:
        """It has been started."""
        self._enter({"running": {"startedAt": at}})
        self.log, self.previous_log = Log(), self.log
        self.restarts += bool(self.last_state)

    def end(self, code: int, reason: str, message: str, *, at: str, process: int = 0) -> None:
        """It has ended, or could not be started."""
        ended = {
            "exitCode": code,
            "reason": reason,
            "startedAt": self.state["running"]["startedAt"],
            "finishedAt": at,
            "containerID": f"process://{process}",
        }
        self._enter({"terminated": ended | ({"message": message} if message else {})})

    @property
    def exit_code(self) -> int | None:
        """The exit code of its instance, or of the previous one if that has ended last; None if none has ended."""
        ended = self.state.get("terminated") or self.last_state.get("terminated")
        return ended["exitCode"] if ended else None

    @property
    def has_ended(self) -> bool:
        """Whether it does not run, and nothing is said of another start."""
        return "terminated" in self.state

    @property
    def has_succeeded(self) -> bool:
        """Whether it has ended well."""
        return self.has_ended and self.exit_code == 0

    def as_dict(self, *, ready: bool) -> dict[str, Any]:
        """Return it as a part of the pod's status."""
        return {
            "name": self.name,
            "image": self.image,
            "ready": ready,
            "started": self.started,
            "restartCount": self.restarts,
            "state": self.state,
            "lastState": self.last_state,
        }

    def _enter(self, state: State) -> None:
        if self.has_ended:
            self.last_state = self.state
        self.state, self.ready, self.started = state, False, False


def statuses_of(containers: Sequence[Mapping[str, Any]]) -> dict[str, ContainerStatus]:
    """Return the statuses of containers that are not started, by their names."""
    return {item["name"]: ContainerStatus(item["name"], item.get("image", "")) for item in containers}


def pod_status(
    init: Collection[ContainerStatus], servers: Collection[ContainerStatus], before: Mapping[str, Any], now: str
) -> dict[str, Any]:
    """Return the status of a pod; conditions that are as ``before`` keep the times of their transition."""
    times = {item["type"]: (item["status"], item["lastTransitionTime"]) for item in before.get("conditions", ())}
    conditions = []
    for type_, reason, message in _conditions(init, servers):
        text = "False" if reason else "True"
        known, since = times.get(type_, (text, now))
        conditions.append(
            {"type": type_, "status": text, "lastTransitionTime": since if known == text else now}
            | ({"reason": reason, "message": message} if reason else {})
        )
    has_begun = any("waiting" not in item.state or item.last_state for item in servers)
    return {
        "phase": "Running" if has_begun else "Pending",
        "conditions": conditions,
        "initContainerStatuses": [item.as_dict(ready=item.has_succeeded) for item in init],
        "containerStatuses": [item.as_dict(ready=item.ready) for item in servers],
    }


def _conditions(init: Iterable[ContainerStatus], servers: Iterable[ContainerStatus]) -> Iterator[tuple[str, str, str]]:
    """Yield each condition with its reason and its message, which are empty if it is true."""
    yield "PodScheduled", "", ""
    incomplete = [item.name for item in init if not item.has_succeeded]
    yield "Initialized", *_unless("ContainersNotInitialized", "incomplete", incomplete)
    unready = [item.name for item in servers if not item.ready]
    for type_ in ("ContainersReady", "Ready"):
        yield type_, *_unless("ContainersNotReady", "unready", unready)


def _unless(reason: str, how: str, names: Sequence[str]) -> tuple[str, str]:
    return (reason, f"containers with {how} status: [{' '.join(names)}]") if names else ("", "")
