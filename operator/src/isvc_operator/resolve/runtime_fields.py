"""Steps: the runtime's pod beneath what the service has set, with the defaults for its type of server; placeholders."""

from __future__ import annotations

from dataclasses import replace

from isvc_operator.api.core_fields import PodSpecFields
from isvc_operator.api.names import ANNOTATION_MODEL_FORMAT, CONTAINER_SERVER, CONTAINER_TRANSFORMER
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.containers import (
    fields_of,
    is_grpc,
    merge_container,
    merge_containers,
    merge_items,
    merge_maps,
)
from isvc_operator.resolve.context import Context
from isvc_operator.resolve.placeholders import fill_all, fill_container, values_of
from isvc_operator.resolve.server_types import defaults_of, with_defaults_of_type

# Pod fields that a runtime may set (docs/kserve.md), in addition to its containers and the lists below. The user's win.
_POD_FIELDS = ("nodeSelector", "affinity", "tolerations", "schedulerName")
# Lists of the pod whose items have names; those of the runtime and of the user are merged.
_NAMED_ITEMS = ("volumes", "imagePullSecrets", "resourceClaims")


def runtime_fields(component: Component, context: Context) -> Component:
    """Return the predictor merged over its runtime, if it has one."""
    if context.served is None:
        return component
    chosen = context.served.chosen
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
    merged = merge_container(base, component.server)
    defaults = defaults_of(context.served, context)
    server = with_defaults_of_type(merged, component.server, defaults)
    if chosen.protocol.startswith("grpc") and "ports" in server:
        server["ports"] = sorted(server["ports"], key=lambda port: not is_grpc(port.get("name", "")))
    labels = {**component.labels, **defaults.labels, **(context.requested.spec.labels or {})}
    return replace(component, labels=labels, server=server, pod=pod)


def fill_placeholders(component: Component, context: Context) -> Component:
    """Return the predictor whose containers have values in place of placeholders, if it has a runtime.

    As with KServe, templates that are no placeholders are an error in the server and in a transformer beside it only.
    KServe's webhook adds the annotation for the format; some runtimes read it.
    """
    if context.served is None:
        return component
    metadata = context.service.metadata
    labels = {**metadata.labels, **defaults_of(context.served, context).labels}
    annotations = {ANNOTATION_MODEL_FORMAT: context.served.model.model_format.name, **metadata.annotations}
    values = values_of(metadata.model_copy(update={"labels": labels, "annotations": annotations}))
    pod = dict(component.pod)
    pod["containers"] = [
        fill_container(item, values) if item.get("name") == CONTAINER_TRANSFORMER else fill_all(item, values)
        for item in pod["containers"]
    ]
    if "initContainers" in pod:
        pod["initContainers"] = fill_all(pod["initContainers"], values)
    return replace(component, server=fill_container(component.server, values), pod=pod)
