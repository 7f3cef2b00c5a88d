"""Step: the runtime's pod beneath what the service has set, and the defaults for its type of server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from isvc_operator.api.core_fields import PodSpecFields
from isvc_operator.api.names import CONTAINER_SERVER
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import Component, http_port
from isvc_operator.resolve.containers import (
    fields_of,
    flag_value,
    is_grpc,
    merge_container,
    merge_containers,
    merge_items,
    merge_maps,
)
from isvc_operator.resolve.context import Context
from isvc_operator.resolve.server_types import ServerDefaults

# Pod fields that a runtime may set (contract §1.4), in addition to its containers and the lists below. The user's win.
_POD_FIELDS = ("nodeSelector", "affinity", "tolerations", "schedulerName")
# Lists of the pod whose items have names; those of the runtime and of the user are merged.
_NAMED_ITEMS = ("volumes", "imagePullSecrets", "resourceClaims")
_READY = {"periodSeconds": 5, "timeoutSeconds": 2, "failureThreshold": 3}


def runtime_fields(component: Component, context: Context) -> Component:
    """Return the predictor merged over its runtime, if it has one."""
    if context.served is None:
        return component
    chosen, defaults = context.served.chosen, context.served.defaults
    shared = fields_of(chosen.runtime.spec, PodSpecFields)
    sidecars = [item for item in shared["containers"] if item.get("name") != CONTAINER_SERVER]
    base = next((item for item in shared["containers"] if item.get("name") == CONTAINER_SERVER), None)
    if base is None:
        raise InvalidSpec(
            f"runtime {chosen.runtime.metadata.name!r} has no container named {CONTAINER_SERVER!r}; "
            "give its server that name",
            "RuntimeNotRecognized",
        )
    pod = merge_maps({name: shared[name] for name in _POD_FIELDS if name in shared}, component.pod)
    for name in _NAMED_ITEMS:
        if items := merge_items(shared.get(name, ()), component.pod.get(name, ()), "name"):
            pod[name] = items
    pod["containers"] = merge_containers(sidecars, component.pod["containers"])
    base = {**base, "lifecycle": base.get("lifecycle", {})}  # every server has one in the end, before the user's fields
    server = _with_defaults(merge_container(base, component.server), component.server, defaults)
    if chosen.protocol.startswith("grpc") and "ports" in server:
        server["ports"] = sorted(server["ports"], key=lambda port: not is_grpc(port.get("name", "")))
    labels = {**component.labels, **defaults.labels, **(context.requested.spec.labels or {})}
    return replace(component, labels=labels, server=server, pod=pod)


def _with_defaults(container: Container, own: Container, defaults: ServerDefaults) -> dict[str, Any]:
    """Return the container with the defaults, which replace the runtime's values; ``own`` is what the service sets.

    The variables come first, so that others can refer to them.
    """
    chosen = {item.get("name") for item in own.get("env", ())}
    kept = [
        item for item in container.get("env", ()) if item.get("name") in chosen or item.get("name") not in defaults.env
    ]
    variables = [{"name": name, "value": value} for name, value in defaults.env.items()]
    flags = [f"{flag}={value}" for flag, value in defaults.flags.items() if flag_value(own, flag) is None]
    completed = dict(container)
    if env := merge_items(variables, kept, "name"):
        completed["env"] = env
    if flags:
        completed["args"] = [*container.get("args", ()), *flags]
    if defaults.ready_path:
        action: Mapping[str, Any] = {"httpGet": {"path": defaults.ready_path, "port": http_port(container)}}
        completed.setdefault("readinessProbe", {**action, **_READY})
    return completed
