"""Containers that users bring: which of them serves, and what it is given where they said nothing.

The defaults fit the `restricted` Pod Security Standard. Whatever the user wrote stays, so a container that has to be
root can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isvc_operator.api.names import CONTAINER_SERVER, CONTAINER_TRANSFORMER
from isvc_operator.config import ResourceConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.containers import Container, ended_in_time

# Time for the endpoint's removal to reach every proxy, before new connections are refused.
_BEFORE_STOP = {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}


def server_first(containers: Sequence[Container], field: str) -> list[dict[str, Any]]:
    """The containers of a component without a model, the one that serves first and under KServe's name.

    It is the one that has the name, else the only one; of a transformer's and an explainer's it is the first.
    """
    if not containers:
        raise InvalidSpec(f"{field} has no containers; give it one with an image")
    names = [item.get("name") for item in containers]
    if CONTAINER_SERVER in names:
        at = names.index(CONTAINER_SERVER)
    elif field != "spec.predictor" or len(containers) == 1 or not names[0]:
        at = 0
    else:
        raise InvalidSpec(
            f"{field} has several containers, and none of them is named {CONTAINER_SERVER}; give that name to the one "
            "that serves"
        )
    server = {**containers[at], "name": CONTAINER_SERVER}
    return [server, *(dict(item) for number, item in enumerate(containers) if number != at)]


def completed(container: Container, pod: Mapping[str, Any], resources: ResourceConfig) -> dict[str, Any]:
    """The container with our defaults where it says nothing; helpers beside it stay as they were written."""
    if container.get("name") not in (CONTAINER_SERVER, CONTAINER_TRANSFORMER):
        return dict(container)
    return {
        **container,
        "lifecycle": {**ended_in_time(_BEFORE_STOP, pod)["lifecycle"], **container.get("lifecycle", {})},
        "resources": _with_defaults(container.get("resources", {}), resources),
        "securityContext": _restricted(container.get("securityContext", {}), pod.get("securityContext", {})),
    }


def _with_defaults(given: Mapping[str, Any], defaults: ResourceConfig) -> dict[str, Any]:
    """A default fills in where neither request nor limit is given: beside one of them it could contradict it."""
    resources: dict[str, Any] = {
        name: dict(value) if isinstance(value, Mapping) else value for name, value in given.items()
    }
    said = {*given.get("requests", {}), *given.get("limits", {})}
    wanted = (
        ("requests", "cpu", defaults.cpu_request),
        ("requests", "memory", defaults.memory_request),
        ("limits", "cpu", defaults.cpu_limit),
        ("limits", "memory", defaults.memory_limit),
    )
    for kind, name, amount in wanted:
        if amount and name not in said:
            resources.setdefault(kind, {})[name] = amount
    return resources


def _restricted(own: Mapping[str, Any], pods: Mapping[str, Any]) -> dict[str, Any]:
    context: dict[str, Any] = {}
    if not own.get("privileged") and "capabilities" not in own:
        context |= {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if "runAsNonRoot" not in pods and own.get("runAsUser", pods.get("runAsUser")) != 0:
        context["runAsNonRoot"] = True
    return {**context, **own}
