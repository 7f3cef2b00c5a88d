"""Steps: the name of the service in its containers; defaults for the pod and for the user's own servers.

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

_SERVICE_NAME = "INFERENCE_SERVICE_NAME"


def service_name(component: Component, context: Context) -> Component:
    """Return the component whose servers know the name of the service, and in the predictor's pod all containers."""
    name = context.service.metadata.name
    others = component.pod["containers"]
    if component.kind == PREDICTOR:
        others = [with_variable(item, _SERVICE_NAME, name) for item in others]
    server = with_variable(component.server, _SERVICE_NAME, name)
    return replace(component, server=server, pod={**component.pod, "containers": others})


def with_defaults(component: Component, context: Context) -> Component:
    """Return the component with the defaults; the containers beside a transformer are left as they are."""
    pod, config, server = component.pod, context.config, component.server
    security, resources = pod.get("securityContext", {}), config.inference_service.resource
    servers = (CONTAINER_SERVER, CONTAINER_TRANSFORMER) if component.kind == PREDICTOR else ()
    fields = {
        **pod,
        "containers": [
            restricted(item, security, resources) if item.get("name") in servers else item for item in pod["containers"]
        ],
        "automountServiceAccountToken": pod.get(
            "automountServiceAccountToken", config.security.auto_mount_service_account_token
        ),
        # A variable for every Service of the namespace would reach the server: one named "http" sets HTTP_PORT.
        "enableServiceLinks": pod.get("enableServiceLinks", False),
    }
    own = server if context.served else restricted(server, security, resources)
    return replace(component, server=own, pod=fields)


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
