"""Steps: the pod as the service has it, and its runtime beneath; placeholders; the image's tag; the service's name.

What KServe does for each type of server is in docs/kserve.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from isvc_operator.api.base import ApiModel, field_names
from isvc_operator.api.components import BatcherSpec, ModelSpec, PredictorSpec
from isvc_operator.api.core_fields import ContainerFields, PodSpecFields
from isvc_operator.api.core_shapes import without_nulls
from isvc_operator.api.names import (
    ANNOTATION_FIXED_IMAGE,
    ANNOTATION_MODEL_FORMAT,
    CONTAINER_SERVER,
    CONTAINER_TRANSFORMER,
    LABEL_MODEL_CLASS,
    LABEL_SERVICE_ENVELOPE,
    MODELS_MOUNT,
    PREDICTOR,
)
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Container
from isvc_operator.resolve.component import Component, Context, ModelOnRuntime
from isvc_operator.resolve.containers import (
    flag_value,
    merge_container,
    merge_containers,
    merge_items,
    merge_maps,
    with_variable,
)
from isvc_operator.resolve.placeholders import fill_all, fill_container, values_of
from isvc_operator.resolve.ports import http_port, is_grpc, moved_ports, with_moved_ports
from isvc_operator.resolve.requested import server_first
from isvc_operator.resolve.runtime import MLSERVER, TORCHSERVE, TRITON, ChosenRuntime, image_for, server_type_of

_SERVICE_NAME = "INFERENCE_SERVICE_NAME"
_WORDS = frozenset({"args", "command"})  # of which a null item is an empty one


@dataclass(frozen=True)
class ServerSetting:
    """A number given for ``field`` of the predictor; ``variable`` sets a flag that all shipped runtimes have."""

    field: str
    variable: str
    value: int


def own_fields(component: Component, context: Context) -> Component:
    """Return the component with the fields that the user has set."""
    spec, served = context.requested.spec, context.served
    settings = settings_of(spec) if isinstance(spec, PredictorSpec) else ()
    env = [{"name": item.variable, "value": str(item.value)} for item in settings]
    pod = _fields_of(spec, PodSpecFields)
    containers: list[dict[str, Any]] = [_known(item) for item in pod.get("containers", ())]
    if "initContainers" in pod:
        pod["initContainers"] = [_known(item) for item in pod["initContainers"]]
    if served:  # the fields of the server are those of its model
        containers = [_fields_of(served.model, ContainerFields), *containers]
    else:
        containers = server_first(containers, context.requested.field)
    server, *others = containers
    if env:
        server = {**server, "env": merge_items(env, server.get("env", ()), "name")}
    return replace(
        component,
        server=server,
        pod={**pod, "containers": others},
        timeout=spec.timeout if spec.timeout and spec.timeout > 0 else None,
        strategy=spec.deployment_strategy.known_fields() if spec.deployment_strategy else None,
    )


def _fields_of(source: ApiModel, kind: type[ApiModel]) -> dict[str, Any]:
    """Return the fields of ``source`` that belong to ``kind`` (a core/v1 type), by their names in YAML."""
    names, given = field_names(kind), source.model_dump(exclude_none=True)
    return {name: without_nulls(value) for name, value in given.items() if name in names}


def settings_of(predictor: PredictorSpec) -> Iterator[ServerSetting]:
    """Yield every setting that has an effect."""
    batcher = predictor.batcher or BatcherSpec()
    given = (
        ("batcher.maxBatchSize", "MAX_BATCH_SIZE", batcher.max_batch_size),
        ("batcher.maxLatency", "MAX_LATENCY", batcher.max_latency),
        ("batcher.timeout", "BATCH_TIMEOUT", batcher.timeout),
        ("timeout", "REQUEST_TIMEOUT", predictor.timeout),
    )
    for name, variable, value in given:
        if value is not None and value > 0:
            yield ServerSetting(f"spec.predictor.{name}", variable, value)


def _known(container: Container) -> dict[str, Any]:
    """Return a container without unknown fields: the API server would refuse the Deployment."""
    known = field_names(ContainerFields)
    fields = {name: value for name, value in container.items() if name in known}
    words = {name: ["" if word is None else word for word in fields[name]] for name in _WORDS & fields.keys()}
    return {**fields, **words}


# Annotations with the port at which a server has its metrics.
_METRICS_PORTS = ("prometheus.io/port", "prometheus.kserve.io/port")
# Pod fields that a runtime may set (docs/kserve.md), in addition to its containers and the lists below. The user's win.
_POD_FIELDS = ("nodeSelector", "affinity", "tolerations", "schedulerName")
# Lists of the pod whose items have names; those of the runtime and of the user are merged.
_NAMED_ITEMS = ("volumes", "imagePullSecrets", "resourceClaims")


def runtime_fields(component: Component, context: Context) -> Component:
    """Return the predictor merged over its runtime, if it has one."""
    if context.served is None:
        return component
    chosen = context.served.chosen
    shared = _fields_of(chosen.runtime.spec, PodSpecFields)
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
    annotations = component.annotations
    tells_ports = any(component.server.get(name) for name in ("command", "args", "env"))
    if tells_ports and (moved := moved_ports(base, merged)):
        merged = merge_container(with_moved_ports(base, moved), component.server)
        annotations = _moved_annotations(annotations, context, moved)
    defaults = defaults_of(context.served, context)
    server = with_defaults_of_type(merged, component.server, defaults)
    if chosen.protocol.startswith("grpc") and "ports" in server:
        server["ports"] = sorted(server["ports"], key=lambda port: not is_grpc(port.get("name", "")))
    own = {name: component.labels[name] for name in context.requested.spec.labels or {} if name in component.labels}
    labels = {**component.labels, **defaults.labels, **own}
    return replace(component, labels=labels, annotations=annotations, server=server, pod=pod)


def _moved_annotations(given: Mapping[str, str], context: Context, moved: Mapping[int, int]) -> dict[str, str]:
    """Return the annotations; those of the runtime that name a port which has moved name the new one."""
    own = {**context.service.metadata.annotations, **(context.requested.spec.annotations or {})}
    new = {str(port): str(number) for port, number in moved.items()}
    followed = {name: new[given[name]] for name in _METRICS_PORTS if name not in own and given.get(name) in new}
    return {**given, **followed}


def fill_placeholders(component: Component, context: Context) -> Component:
    """Return the predictor whose containers have values in place of placeholders, if it has a runtime.

    As with KServe, templates that are not placeholders are an error in the server and in a transformer beside it only.
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


_ENVELOPES = {"v1": "kserve", "v2": "kservev2", "grpc-v2": "kservev2"}
_MODEL_CLASSES = {
    "xgboost": "mlserver_xgboost.XGBoostModel",
    "lightgbm": "mlserver_lightgbm.LightGBMModel",
    "mlflow": "mlserver_mlflow.MLflowRuntime",
}
_OTHER_MODEL_CLASS = "mlserver_sklearn.SKLearnModel"
_MODEL_CONTROL = "--model-control-mode"
_READY = {"periodSeconds": 5, "timeoutSeconds": 2, "failureThreshold": 3}


@dataclass(frozen=True)
class ServerDefaults:
    """What a server gets in addition to what its runtime and its service set.

    ``ready_path`` is where its HTTP port says whether it is ready.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    ready_path: str | None = None


def defaults_of(served: ModelOnRuntime, context: Context) -> ServerDefaults:
    service, protocol = context.service.metadata, served.chosen.protocol
    server_type, request = server_type_of(served.chosen.runtime), context.storage.requests[PREDICTOR]
    stored = request.spec is not None or bool(request.sources)  # the pod gets a model in the folder of models
    if server_type == TORCHSERVE:
        envelope = service.labels.get(LABEL_SERVICE_ENVELOPE, _ENVELOPES.get(protocol, _ENVELOPES["v1"]))
        return ServerDefaults(labels={LABEL_SERVICE_ENVELOPE: envelope}, env={"PROTOCOL_VERSION": protocol})
    if server_type == MLSERVER:
        model = {"MLSERVER_MODEL_NAME": service.name, "MLSERVER_MODEL_URI": MODELS_MOUNT}
        return ServerDefaults(
            labels={LABEL_MODEL_CLASS: _MODEL_CLASSES.get(served.model.model_format.name, _OTHER_MODEL_CLASS)},
            env=model if stored else {"MLSERVER_LOAD_MODELS_AT_STARTUP": "false"},
            # It opens its port before it has loaded the model: KServe's probe of the port would send it requests.
            ready_path="/v2/health/ready",
        )
    if server_type == TRITON and not stored:
        return ServerDefaults(flags={_MODEL_CONTROL: "explicit"})
    return ServerDefaults()


def with_defaults_of_type(container: Container, own: Container, defaults: ServerDefaults) -> dict[str, Any]:
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


def server_image(component: Component, context: Context) -> Component:
    """Return the component with the image of its server; the user's own containers have theirs."""
    served = context.served
    if served is None or "image" not in component.server or has_fixed_image(served.model, served.chosen):
        return component
    image = image_for(component.server, server_type_of(served.chosen.runtime), served.model.runtime_version)
    return replace(component, server={**component.server, "image": image})


def has_fixed_image(model: ModelSpec, chosen: ChosenRuntime) -> bool:
    """Whether the server's image exists with one tag only: neither a version nor a GPU changes it."""
    fixed = chosen.runtime.metadata.annotations.get(ANNOTATION_FIXED_IMAGE, "").lower() == "true"
    return fixed and not model.image


def service_name(component: Component, context: Context) -> Component:
    """Return the component whose servers know the name of the service, and in the predictor's pod all containers."""
    name = context.service.metadata.name
    others = component.pod["containers"]
    if component.kind == PREDICTOR:
        others = [with_variable(item, _SERVICE_NAME, name) for item in others]
    server = with_variable(component.server, _SERVICE_NAME, name)
    return replace(component, server=server, pod={**component.pod, "containers": others})
