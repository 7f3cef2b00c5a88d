"""The containers of a pod, from their statuses. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from isvc.view.values import ContainerEnd, ContainerState, ContainerView, Purpose
from isvc_operator.api.names import CONTAINER_INITIALIZER, CONTAINER_MODELCAR, CONTAINER_SERVER, CONTAINER_TRANSFORMER
from isvc_operator.manifests import Pod


def containers_of(pod: Pod) -> list[ContainerView]:
    """Return the init containers, then the others, in the pod's order."""
    return [_container(status, purpose) for status, purpose in _statuses(pod)]


def _statuses(pod: Pod) -> Iterator[tuple[Mapping[str, Any], Purpose]]:
    status = pod.get("status", {})
    for item in status.get("initContainerStatuses", ()):
        yield item, _purpose_of_init(item["name"])
    containers = status.get("containerStatuses", ())
    servers = [item["name"] for item in containers if item["name"] in (CONTAINER_SERVER, CONTAINER_TRANSFORMER)]
    servers = servers or [item["name"] for item in containers[:1]]
    for item in containers:
        yield item, Purpose.SERVER if item["name"] in servers else Purpose.SIDECAR


def _purpose_of_init(name: str) -> Purpose:
    if name == CONTAINER_INITIALIZER:
        return Purpose.STORAGE
    # The one that holds the files of a model's image runs beside the server.
    return Purpose.SIDECAR if name == CONTAINER_MODELCAR else Purpose.INIT


def _container(status: Mapping[str, Any], purpose: Purpose) -> ContainerView:
    state, before = status.get("state", {}), status.get("lastState", {}).get("terminated", {})
    ended = state.get("terminated", before)
    said = {**state.get("waiting", {})} or ended
    return ContainerView(
        name=status["name"],
        purpose=purpose,
        state=_state(state),
        image=status["image"],
        ready=status["ready"],
        restarts=status["restartCount"],
        reason=said.get("reason", ""),
        message=said.get("message") or ended.get("message", ""),
        exit_code=ended.get("exitCode"),
        started_at=(state.get("running") or state.get("terminated", {})).get("startedAt"),
        ended_at=state.get("terminated", {}).get("finishedAt"),
        last=_ended(before) if before else None,
    )


def _ended(terminated: Mapping[str, Any]) -> ContainerEnd:
    return ContainerEnd(
        reason=terminated.get("reason", ""),
        exit_code=terminated.get("exitCode"),
        started_at=terminated.get("startedAt"),
        ended_at=terminated.get("finishedAt"),
    )


def _state(state: Mapping[str, Any]) -> ContainerState:
    if "running" in state:
        return ContainerState.RUNNING
    return ContainerState.TERMINATED if "terminated" in state else ContainerState.WAITING
