"""Step: the defaults for fields that are not set, of the pod and of the user's own servers.

Those of the servers satisfy the `restricted` Pod Security Standard. The user's settings win, so a container can run as
root.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from isvc_operator.api.names import CONTAINER_SERVER, CONTAINER_TRANSFORMER, PREDICTOR
from isvc_operator.config import ResourceConfig
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.containers import with_variable
from isvc_operator.resolve.context import Context


def with_defaults(component: Component, context: Context) -> Component:
    """Return the component with the defaults; the containers beside a transformer are left as they are."""
    pod, config = component.pod, context.config
    resources, security = config.inference_service.resource, pod.get("securityContext", {})

    def completed(container: Container, *, own: bool = True) -> dict[str, Any]:
        named = with_variable(container, "INFERENCE_SERVICE_NAME", context.service.metadata.name)
        return restricted(named, security, resources) if own else named

    others = pod["containers"]
    if component.kind == PREDICTOR:
        servers = (CONTAINER_SERVER, CONTAINER_TRANSFORMER)
        others = [completed(item, own=item.get("name") in servers) for item in others]
    fields = {
        **pod,
        "containers": others,
        "automountServiceAccountToken": pod.get(
            "automountServiceAccountToken", config.security.auto_mount_service_account_token
        ),
        # A variable for every Service of the namespace would reach the server: one named "http" sets HTTP_PORT.
        "enableServiceLinks": pod.get("enableServiceLinks", False),
    }
    return replace(component, server=completed(component.server, own=context.served is None), pod=fields)


def restricted(container: Container, pod: Mapping[str, Any], resources: ResourceConfig) -> dict[str, Any]:
    """Return one of the user's servers with resources and a security context; ``pod`` is that of its pod."""
    return {
        **container,
        "resources": _with_amounts(container.get("resources", {}), resources),
        "securityContext": _without_privileges(container.get("securityContext", {}), pod),
    }


def _with_amounts(given: Mapping[str, Any], defaults: ResourceConfig) -> dict[str, Any]:
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


def _without_privileges(own: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, Any]:
    context: dict[str, Any] = {}
    if not own.get("privileged") and "capabilities" not in own:
        context |= {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if "runAsNonRoot" not in pod and own.get("runAsUser", pod.get("runAsUser")) != 0:
        context["runAsNonRoot"] = True
    return {**context, **own}
