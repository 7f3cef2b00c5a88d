"""The user's own containers: which one is the server, and the defaults for fields that are not set.

The defaults satisfy the `restricted` Pod Security Standard. The user's settings win, so a container can run as root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isvc_operator.api.names import CONTAINER_SERVER, CONTAINER_TRANSFORMER
from isvc_operator.config import ResourceConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Container
from isvc_operator.resolve.termination import with_drain_seconds, with_pre_stop


def server_first(containers: Sequence[Container], field: str) -> list[dict[str, Any]]:
    """Return the containers with the server first and under KServe's name.

    The server is the container with that name, or else the only one; of a transformer or an explainer, the first one.
    """
    if not containers:
        raise InvalidSpec(f"{field} has no containers; give it one with an image")
    names = [item.get("name") for item in containers]
    if CONTAINER_SERVER in names:
        index = names.index(CONTAINER_SERVER)
    elif field != "spec.predictor" or len(containers) == 1 or not names[0]:
        index = 0
    else:
        raise InvalidSpec(
            f"{field} has several containers, and none of them is named {CONTAINER_SERVER}; give that name to the "
            "server"
        )
    server = {**containers[index], "name": CONTAINER_SERVER}
    return [server, *(dict(item) for number, item in enumerate(containers) if number != index)]


def completed(container: Container, pod: Mapping[str, Any], resources: ResourceConfig) -> dict[str, Any]:
    """Return a server or transformer with our defaults for fields that are not set; other containers unchanged.

    ``pod`` has all its containers.
    """
    if container.get("name") not in (CONTAINER_SERVER, CONTAINER_TRANSFORMER):
        return dict(container)
    server = with_drain_seconds(with_pre_stop(container, pod), pod)
    return {
        **server,
        "resources": _with_defaults(container.get("resources", {}), resources),
        "securityContext": _restricted(container.get("securityContext", {}), pod.get("securityContext", {})),
    }


def _with_defaults(given: Mapping[str, Any], defaults: ResourceConfig) -> dict[str, Any]:
    """Apply a default only if neither request nor limit is given, because it could contradict the other one."""
    resources: dict[str, Any] = {
        name: dict(value) if isinstance(value, Mapping) else value for name, value in given.items()
    }
    specified = {*given.get("requests", {}), *given.get("limits", {})}
    defaulted = (
        ("requests", "cpu", defaults.cpu_request),
        ("requests", "memory", defaults.memory_request),
        ("limits", "cpu", defaults.cpu_limit),
        ("limits", "memory", defaults.memory_limit),
    )
    for kind, name, amount in defaulted:
        if amount and name not in specified:
            resources.setdefault(kind, {})[name] = amount
    return resources


def _restricted(own: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, Any]:
    context: dict[str, Any] = {}
    if not own.get("privileged") and "capabilities" not in own:
        context |= {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if "runAsNonRoot" not in pod and own.get("runAsUser", pod.get("runAsUser")) != 0:
        context["runAsNonRoot"] = True
    return {**context, **own}
