"""Everything of a service that has no effect, for the condition ``FieldsIgnored`` and for ``isvc validate``. Pure.

To what has none in any service (``ignored.table``), this adds what has none beside its runtime and the configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from isvc_operator.api.components import LoggerSpec, ModelSpec
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import (
    ANNOTATION_LOGGER_FRACTION,
    ANNOTATION_PVC_MODE,
    ANNOTATION_READONLY,
    ANNOTATION_SETTINGS,
    CONTAINER_TRANSFORMER,
    MODELS_MOUNT,
    PREDICTOR,
)
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.config import IngressConfig, LoggerConfig, NetworkAccess, NetworkPolicyConfig, OperatorConfig
from isvc_operator.ignored.walker import unknown_annotations, unknown_fields, unused_fields, unused_parts
from isvc_operator.limits import NAMED
from isvc_operator.manifests import Container
from isvc_operator.resolve.annotations import (
    has_unread_value,
    ingress_annotations,
    is_read_of_ingresses,
    may_reach_others,
)
from isvc_operator.resolve.front import LOGGER, url_problem
from isvc_operator.resolve.hosts import has_ingress
from isvc_operator.resolve.pod import has_fixed_image, settings_of
from isvc_operator.resolve.ports import is_grpc, listed_ports, told_port
from isvc_operator.resolve.requested import ComponentSpec, model_field, model_of, settings_read, specified_components
from isvc_operator.resolve.runtime import TRITON, ChosenRuntime, server_type_of
from isvc_operator.resolve.service import Resolved
from isvc_operator.resolve.storage.planning import FOR_DOWNLOADS
from isvc_operator.text import one_line

_OF_STORAGE = frozenset({*FOR_DOWNLOADS, ANNOTATION_PVC_MODE, ANNOTATION_READONLY})


def ignored_parts(service: InferenceService, resolved: Resolved | None, config: OperatorConfig) -> Iterator[str]:
    """Yield fields and annotations that have no effect, each with what happens instead.

    ``resolved`` is None if the service cannot be served: what depends on its runtime is not known.
    """
    yield from unknown_fields(service)
    yield from unused_parts(service, config.credentials)
    if resolved:
        yield from unread_settings(service, resolved.chosen, config.logger)
        yield from unserved_parts(resolved)
        yield from unreached_parts(resolved.access, config.network_policy, published=resolved.hosts.external)
    yield from islice(refused_annotations(service, config.ingress), NAMED)
    if has_ingress(service.metadata, config.ingress):
        yield from islice(annotations_of_no_ingress(service), NAMED)


def ignored_parts_of_runtime(runtime: ServingRuntime) -> Iterator[str]:
    """Yield a runtime's fields that have no effect, after its kind and name."""
    for field in (*unknown_fields(runtime), *unused_fields(runtime), *unknown_annotations(runtime)):
        yield f"{runtime.kind} {runtime.metadata.name}: {field}"


def all_ignored_parts(service: InferenceService, resolved: Resolved | None, config: OperatorConfig) -> Iterator[str]:
    """Yield what has no effect in the service and in the runtime that was chosen for it, and missing models."""
    yield from ignored_parts(service, resolved, config)
    if resolved:
        yield from missing_models(resolved)
    if resolved and resolved.chosen:
        yield from ignored_parts_of_runtime(resolved.chosen.runtime)


def unread_settings(service: InferenceService, chosen: ChosenRuntime | None, config: LoggerConfig) -> Iterator[str]:
    """Yield the settings that a server may not read; without ``chosen``, the predictor is the user's own container."""
    annotations = chosen.runtime.metadata.annotations if chosen else service.spec.predictor.annotations or {}
    for setting in settings_of(service.spec.predictor):
        if setting.variable not in settings_read(annotations):
            own = f"the container gets {setting.variable}, and has to read it"
            yield f"{setting.field} ({_unlisted(chosen, setting.variable) if chosen else own})"
    yield from unlogged_parts(service, chosen, config)


def unlogged_parts(service: InferenceService, chosen: ChosenRuntime | None, config: LoggerConfig) -> Iterator[str]:
    """Yield the parts of all loggers that have no effect; ``chosen`` is None with the user's own containers."""
    for kind, component in specified_components(service.spec):
        annotations = {**service.metadata.annotations, **(component.annotations or {})}
        runtime = chosen if kind == PREDICTOR else None
        if runtime:
            annotations = {**(runtime.runtime.spec.annotations or {}), **annotations}
        if component.logger:
            field = f"spec.{kind}.logger"
            yield from _unread(field, component, runtime)
            yield from _unsent(field, component.logger, config)
            for name in component.logger.metadata_annotations or ():
                if name not in annotations:
                    yield f"{field}.metadataAnnotations: {name} (the pods have no such annotation)"
        elif ANNOTATION_LOGGER_FRACTION in (component.annotations or {}):
            yield f"annotation {ANNOTATION_LOGGER_FRACTION} of spec.{kind} (it has no logger)"
    if ANNOTATION_LOGGER_FRACTION in service.metadata.annotations and not any(
        component.logger for _, component in specified_components(service.spec)
    ):
        yield f"annotation {ANNOTATION_LOGGER_FRACTION} (the service has no logger)"


def _unread(field: str, component: ComponentSpec, chosen: ChosenRuntime | None) -> Iterator[str]:
    is_transformed = any(item.get("name") == CONTAINER_TRANSFORMER for item in component.containers or ())
    if chosen is None or is_transformed:
        if LOGGER not in settings_read(component.annotations or {}):
            yield (
                f"{field} (the container gets {LOGGER}, and has to read it; if it does, as with our SDK, write "
                f"annotations: {{{ANNOTATION_SETTINGS}: {LOGGER}}} beside it)"
            )
    elif LOGGER not in settings_read(chosen.runtime.metadata.annotations):
        yield f"{field} ({_unlisted(chosen, LOGGER)})"


def _unlisted(chosen: ChosenRuntime, variable: str) -> str:
    name = chosen.runtime.metadata.name
    return f"the server of runtime {name} gets {variable}, which its annotation {ANNOTATION_SETTINGS} does not list"


def _unsent(field: str, logger: LoggerSpec, config: LoggerConfig) -> Iterator[str]:
    if problem := url_problem(logger.url or config.default_url):
        where = f"{field}.url" if logger.url else f"{field} without a url, and logger.defaultUrl of the ConfigMap"
        yield f"{where} (nothing is logged: {problem})"


def unserved_parts(resolved: Resolved) -> Iterator[str]:
    """Yield settings of storage and autoscalers, a version that the image lacks, a port without a server."""
    plans = [component.storage for component in resolved.components]
    yield from dict.fromkeys(text for plan in plans if plan for text in plan.ignored)
    yield from undownloaded_parts(resolved)
    for component in resolved.components:
        yield from component.scaling.ignored
    model, chosen = model_of(resolved.service.spec.predictor), resolved.chosen
    if model is None or chosen is None:
        return
    field, server = model_field(resolved.service.spec.predictor), resolved.predictor.server
    yield from _unused_version(model, chosen, server, field)
    yield from _other_grpc_ports(model, chosen, server, field)


def missing_models(resolved: Resolved) -> Iterator[str]:
    """Yield the fields that lead to no model, each with why: one that is not written, or a path without a scheme."""
    plans = [component.storage for component in resolved.components]
    for source in dict.fromkeys(source for plan in plans if plan and not plan.chosen for source in plan.copied):
        if source.is_relative:
            yield (
                f"storageUri {source.shown} (it has no scheme, so it is a path in the image of the "
                "storage-initializer; for another place, write pvc://CLAIM/PATH, s3://BUCKET/PATH or the like)"
            )
    predictor, chosen = resolved.service.spec.predictor, resolved.chosen
    model = model_of(predictor)
    if model is None or chosen is None or model.image or resolved.predictor.storage:
        return
    if _expects_a_model(resolved.predictor.server, chosen):
        yield (
            f"{model_field(predictor)}.storageUri (not written, and the server of runtime "
            f"{chosen.runtime.metadata.name} reads {MODELS_MOUNT}, where nothing puts a model; write it, or an image "
            "that contains the model)"
        )


def undownloaded_parts(resolved: Resolved) -> Iterator[str]:
    """Yield annotations about a model of components without one, and of the service if no component has one."""
    idle = {component.kind for component in resolved.components if component.storage is None}
    for kind, component in specified_components(resolved.service.spec):
        for name in component.annotations or () if kind in idle else ():
            if name in _OF_STORAGE:
                yield f"annotation {name} of spec.{kind} (nothing is downloaded for it)"
    if len(idle) == len(resolved.components):
        for name in resolved.service.metadata.annotations:
            if name in _OF_STORAGE:
                yield f"annotation {name} (nothing is downloaded)"


def _unused_version(model: ModelSpec, chosen: ChosenRuntime, server: Container, field: str) -> Iterator[str]:
    image, version = str(server.get("image", "")), model.runtime_version
    if not version or image.endswith(f":{version}"):
        return
    why = "has only one version" if has_fixed_image(model, chosen) else "is pinned by its digest"
    yield f"{field}.runtimeVersion: {version} ({image} {why}; write another image as {field}.image)"


def _other_grpc_ports(model: ModelSpec, chosen: ChosenRuntime, server: Container, field: str) -> Iterator[str]:
    """Yield the model's ports for gRPC at which a server whose runtime lists one for gRPC has none."""
    numbers = [port for item in chosen.runtime.spec.containers for port in listed_ports(item, grpc=True)]
    told = told_port(server, grpc=True)
    if told and told.number:
        numbers = numbers and [told.number]
    for port in model.as_dict().get("ports", ()):
        if numbers and is_grpc(port.get("name", "")) and port["containerPort"] not in numbers:
            yield (
                f"{field}.ports: {port['name']} {port['containerPort']} (the server of runtime "
                f"{chosen.runtime.metadata.name} has gRPC at port {numbers[0]}; protocolVersion: grpc-v2 makes port 80 "
                "of the Service lead there)"
            )


def _expects_a_model(server: Container, chosen: ChosenRuntime) -> bool:
    """Whether the command line names the folder of models, which no volume of the runtime or the user is mounted at."""
    mounts = [item.get("mountPath", "") for item in server.get("volumeMounts", ())]
    named = any(MODELS_MOUNT in str(word) for word in (*server.get("command", ()), *server.get("args", ())))
    # Triton is told to start without models.
    return (
        named and server_type_of(chosen.runtime) != TRITON and not any(path.startswith(MODELS_MOUNT) for path in mounts)
    )


def unreached_parts(access: NetworkAccess, config: NetworkPolicyConfig, *, published: bool) -> Iterator[str]:
    """Yield what of the NetworkPolicies has another effect than expected; ``published``: the service has hosts."""
    if access is not NetworkAccess.NONE and published and not config.names_ingress:
        yield (
            f"networkPolicy {access} (requests through an Ingress or a Gateway are refused as well: networkPolicy of "
            "the ConfigMap names neither ingressNamespaces nor ingressCidrs)"
        )


def refused_annotations(service: InferenceService, config: IngressConfig) -> Iterator[str]:
    """Yield annotations that are left out of the Ingress or the Services: they could affect others' requests."""
    own = service.metadata.annotations
    names = list(ingress_annotations(own, config).left_out if has_ingress(service.metadata, config) else ())
    for _, component in specified_components(service.spec):
        names += [name for name in component.annotations or () if may_reach_others(name, config)]
    for name in dict.fromkeys([*names, *(name for name in own if may_reach_others(name, config))]):
        why = "the administrator has not allowed it in allowedServiceAnnotations"
        if has_unread_value(name, config):
            why = "an ingress controller may not read its value, and then serves no change of any Ingress; correct it"
        yield f"annotation {name} (left out: {why})"


def annotations_of_no_ingress(service: InferenceService) -> Iterator[str]:
    """Yield annotations of components that are for an Ingress, which has those of the service, as with KServe."""
    for kind, component in specified_components(service.spec):
        for name in component.annotations or ():
            if is_read_of_ingresses(name) and name not in service.metadata.annotations:
                yield f"annotation {one_line(name)} of spec.{kind} (write it in the metadata of the service)"
