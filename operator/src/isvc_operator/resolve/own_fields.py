"""Step: what the service itself says of a component's pods; the runtime's part comes beneath it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from isvc_operator.api.base import field_names
from isvc_operator.api.components import BatcherSpec, PredictorSpec
from isvc_operator.api.core_fields import ContainerFields, PodSpecFields
from isvc_operator.api.names import ANNOTATION_NETWORK_POLICY, ANNOTATION_UPGRADE_POLICY
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import Component
from isvc_operator.resolve.components import is_usable, server_first
from isvc_operator.resolve.containers import fields_of, merge_items
from isvc_operator.resolve.context import Context
from isvc_operator.resolve.ingress_annotations import may_reach_others

_WORDS = frozenset({"args", "command"})  # of which a null item is an empty one
_NEVER_COPIED = (
    "autoscaling.knative.dev/min-scale",
    "autoscaling.knative.dev/max-scale",
    "internal.serving.kserve.io/storage-initializer-sourceuri",
    "kubectl.kubernetes.io/last-applied-configuration",
    "modelFormat",
    ANNOTATION_NETWORK_POLICY,
    ANNOTATION_UPGRADE_POLICY,
)


@dataclass(frozen=True)
class ServerSetting:
    """A number given for ``field`` of the predictor; ``variable`` sets a flag that both shipped runtimes have."""

    field: str
    variable: str
    value: int


def own_fields(component: Component, context: Context) -> Component:
    """Return the component with its labels, its annotations, and the fields that the user has set."""
    spec, metadata, served = context.requested.spec, context.service.metadata, context.served
    runtime = served.chosen.runtime.spec if served else None
    settings = settings_of(spec) if isinstance(spec, PredictorSpec) else ()
    env = [{"name": item.variable, "value": str(item.value)} for item in settings]
    annotations = _annotations(context, (runtime and runtime.annotations) or {})
    pod = fields_of(spec, PodSpecFields)
    containers: list[dict[str, Any]] = [_known(item) for item in pod.get("containers", ())]
    if "initContainers" in pod:
        pod["initContainers"] = [_known(item) for item in pod["initContainers"]]
    if served:  # the fields of the server are those of its model
        containers = [fields_of(served.model, ContainerFields), *containers]
    else:
        containers = server_first(containers, context.requested.field)
    server, *others = containers
    if env:
        server = {**server, "env": merge_items(env, server.get("env", ()), "name")}
    return replace(
        component,
        labels={**((runtime and runtime.labels) or {}), **metadata.labels, **(spec.labels or {})},
        annotations=annotations,
        server=server,
        pod={**pod, "containers": others},
        strategy=spec.deployment_strategy.known_fields() if spec.deployment_strategy else None,
    )


def settings_of(predictor: PredictorSpec) -> Iterator[ServerSetting]:
    """Yield every setting that has an effect."""
    batcher = predictor.batcher or BatcherSpec()
    given = (
        ("batcher.maxBatchSize", "MAX_BATCH_SIZE", batcher.max_batch_size),
        ("batcher.maxLatency", "MAX_LATENCY", batcher.max_latency),
        ("batcher.timeout", "BATCH_TIMEOUT", batcher.timeout),
        ("timeout", "REQUEST_TIMEOUT", predictor.timeout),
    )
    for field, variable, value in given:
        if value is not None and is_usable(value):
            yield ServerSetting(f"spec.predictor.{field}", variable, value)


def _known(container: Container) -> dict[str, Any]:
    """Return a container without unknown fields: the API server would refuse the Deployment."""
    known = field_names(ContainerFields)
    fields = {name: value for name, value in container.items() if name in known}
    words = {name: ["" if word is None else word for word in fields[name]] for name in _WORDS & fields.keys()}
    return {**fields, **words}


def _annotations(context: Context, runtimes: Mapping[str, str]) -> dict[str, Any]:
    """Return the annotations of the runtime, the service and the component; the last one wins."""
    config = context.config
    disallowed = {*_NEVER_COPIED, *config.inference_service.service_annotation_disallowed_list}
    merged = {**runtimes, **context.service.metadata.annotations, **(context.requested.spec.annotations or {})}
    return {
        name: value
        for name, value in merged.items()
        if name not in disallowed and not may_reach_others(name, config.ingress)
    }
