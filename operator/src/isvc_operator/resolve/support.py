"""Fields and annotations that this version does not support: reported in a condition, never ignored silently."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from isvc_operator.api.components import FRAMEWORKS, PredictorSpec
from isvc_operator.api.inference_service import InferenceService, InferenceServiceSpec
from isvc_operator.api.names import (
    ANNOTATION_ALLOW_PATTERNS,
    ANNOTATION_AUTOSCALER,
    ANNOTATION_IGNORE_PATTERNS,
    ANNOTATION_LOGGER_FRACTION,
    ANNOTATION_NETWORK_POLICY,
    ANNOTATION_PVC_MODE,
    ANNOTATION_READONLY,
    ANNOTATION_RUNTIME,
    ANNOTATION_SETTINGS,
    ANNOTATION_SHA256,
    ANNOTATION_STOP,
    ANNOTATION_STORAGE_RESOURCES,
    ANNOTATION_TLS_SECRET,
    ANNOTATION_UPGRADE_POLICY,
    LABEL_VISIBILITY,
    PREDICTOR,
)
from isvc_operator.api.serving_runtime import ServingRuntime, ServingRuntimeSpec
from isvc_operator.api.unknown_fields import suggestion
from isvc_operator.config import CredentialsConfig, IngressConfig, LoggerConfig
from isvc_operator.limits import NAMED
from isvc_operator.resolve.canaries import HELD_BACK, canary_fields
from isvc_operator.resolve.component import AutoscalerClass
from isvc_operator.resolve.components import is_usable, settings_read, specified_components
from isvc_operator.resolve.hosts import CLUSTER_LOCAL, has_ingress
from isvc_operator.resolve.ingress_annotations import ingress_annotations, may_reach_others
from isvc_operator.resolve.own_fields import settings_of
from isvc_operator.resolve.runtime import ChosenRuntime
from isvc_operator.resolve.unlogged import unlogged_parts
from isvc_operator.text import one_line

_MODEL_MESH = (
    "grpc_endpoint",
    "grpc_data_endpoint",
    "http_data_endpoint",
    "storage_helper",
    "built_in_adapter",
    "replicas",
)
_DEFAULT_KEPT = "the server's default is kept; give a number above 0"
_OLD_SCALING: tuple[tuple[str, ...], str] = ((), "write scaleMetric and scaleTarget in the component")
_NO_SECRET: tuple[tuple[str, ...], str] = ((), "payloads are sent to a URL without a secret, and stored nowhere")
# KServe's annotations: the values that request what is done anyway, and what happens instead for any other value.
_ANNOTATIONS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "serving.kserve.io/deploymentMode": (("Standard", "RawDeployment"), "the service is served as by Standard"),
    ANNOTATION_AUTOSCALER: (
        tuple(item.value for item in AutoscalerClass),
        "the service is scaled as by hpa; write hpa, keda, external or none",
    ),
    "serving.kserve.io/disable-localmodel": (("true",), "storageInitializer.cache of the ConfigMap decides"),
    "serving.kserve.io/disable-auto-update": (("false",), "a runtime that changes rolls the pods"),
    "serving.kserve.io/enable-prometheus-scraping": (
        ("false",),
        "the pods have the runtime's annotations for it; write others under spec.predictor.annotations",
    ),
    "serving.kserve.io/gke-accelerator": (
        (),
        "write nodeSelector: {cloud.google.com/gke-accelerator: …} under spec.predictor",
    ),
    "serving.kserve.io/enable-metric-aggregation": (("false",), "the metrics of each container are served as they are"),
    "serving.kserve.io/enable-tag-routing": (("false",), "no canary is created, so no tag leads to one"),
    "serving.kserve.io/gpu-resource-types": ((), "a container's resources are taken as they are written"),
    "serving.kserve.io/logger-secret-file": _NO_SECRET,
    "serving.kserve.io/logger-secret-name": _NO_SECRET,
    "serving.kserve.io/logger-secret-path": _NO_SECRET,
    "serving.kserve.io/metrics": _OLD_SCALING,
    "serving.kserve.io/nodegroup": ((), "storageInitializer.cache of the ConfigMap keeps models on nodes"),
    "serving.kserve.io/targetUtilizationPercentage": _OLD_SCALING,
    "serving.kserve.io/storage-initializer-uid": (
        ("1000",),
        "the storage-initializer runs as user 1000; a ClusterStorageContainer changes that",
    ),
}
# Those of a service that are read. Others in these domains are KServe's newer ones, or misspelled.
_READ = (
    ANNOTATION_ALLOW_PATTERNS,
    ANNOTATION_IGNORE_PATTERNS,
    ANNOTATION_LOGGER_FRACTION,
    ANNOTATION_NETWORK_POLICY,
    ANNOTATION_PVC_MODE,
    ANNOTATION_READONLY,
    ANNOTATION_RUNTIME,
    ANNOTATION_SETTINGS,
    ANNOTATION_SHA256,
    ANNOTATION_STOP,
    ANNOTATION_STORAGE_RESOURCES,
    ANNOTATION_TLS_SECRET,
    ANNOTATION_UPGRADE_POLICY,
)
_OF_KNATIVE = (
    "autoscaling.knative.dev",
    "features.knative.dev",
    "queue.sidecar.serving.knative.dev",
    "serving.knative.dev",
)
_KNATIVES_VISIBILITY = "networking.knative.dev/visibility"
_DOMAINS = frozenset(name.partition("/")[0] for name in (*_READ, *_ANNOTATIONS))


def unsupported_parts(service: InferenceService, config: CredentialsConfig) -> Iterator[str]:
    """Yield fields, annotations and labels that have no effect, each with what happens instead."""
    yield from unsupported_fields(service.spec)
    yield from map(one_line, islice(unsupported_annotations(service, config), NAMED))
    labels = service.metadata.labels
    if labels.get(_KNATIVES_VISIBILITY) == CLUSTER_LOCAL and LABEL_VISIBILITY not in labels:
        yield f"label {_KNATIVES_VISIBILITY}: {CLUSTER_LOCAL} (only Knative reads it; write {LABEL_VISIBILITY})"


def unsupported_fields(spec: InferenceServiceSpec) -> tuple[str, ...]:
    """Return the paths of fields that are set and not supported, each with what happens instead."""
    return (*_missing(spec), *_predictor(spec.predictor), *_wrappers(spec), *_model(spec.predictor))


def unsupported_annotations(service: InferenceService, config: CredentialsConfig) -> Iterator[str]:
    """Yield annotations of KServe and of this operator that are not supported, each with what happens instead."""
    known = {*_ANNOTATIONS, *_READ, config.storage_secret_name_annotation}
    components = (component.annotations or {} for _, component in specified_components(service.spec))
    given = [(name, own[name]) for own in (service.metadata.annotations, *components) for name in own]
    for name, value in dict.fromkeys(given):
        supported, instead = _ANNOTATIONS.get(name, ((value,), ""))
        if value not in supported:
            yield f"annotation {name}: {value} ({instead})"
        elif name not in known and name.partition("/")[0] in _DOMAINS:
            yield f"annotation {name}{_suggested(name, known) or ' (it is not known)'}"
        elif name.partition("/")[0] in _OF_KNATIVE:
            yield f"annotation {name}: {value} (only Knative reads it)"


def _suggested(name: str, known: Collection[str]) -> str:
    domain, _, own = name.partition("/")
    return suggestion(own, {one.removeprefix(f"{domain}/") for one in known if one.startswith(f"{domain}/")})


def unread_settings(service: InferenceService, chosen: ChosenRuntime | None, config: LoggerConfig) -> Iterator[str]:
    """Yield the settings that a server may not read; without ``chosen``, the predictor is the user's own container."""
    if chosen is None:
        why = "the container gets {}, and has to read it"
        read = settings_read(service.spec.predictor.annotations or {})
    else:
        name = chosen.runtime.metadata.name
        why = f"the server of runtime {name} gets {{}}, which its annotation {ANNOTATION_SETTINGS} does not list"
        read = settings_read(chosen.runtime.metadata.annotations)
    for setting in settings_of(service.spec.predictor):
        if setting.usable and setting.variable not in read:
            yield f"{setting.field} ({why.format(setting.variable)})"
    yield from unlogged_parts(service, chosen, config)


def unused_fields(runtime: ServingRuntime) -> Iterator[str]:
    """Yield the fields of a runtime that are known and not used, each with what happens instead."""
    if runtime.spec.host_ipc:
        yield "spec.hostIPC (as with KServe, pods share the node's memory only if a service sets it)"
    for attribute in _MODEL_MESH:
        if getattr(runtime.spec, attribute) is not None:
            yield f"spec.{ServingRuntimeSpec.model_fields[attribute].alias} (only ModelMesh reads it)"


def refused_annotations(service: InferenceService, config: IngressConfig) -> Iterator[str]:
    """Yield annotations that are left out of the Ingress or the Services: they could affect others' requests."""
    own = service.metadata.annotations
    names = list(ingress_annotations(own, config).left_out if has_ingress(service.metadata, config) else ())
    for _, component in specified_components(service.spec):
        names += [name for name in component.annotations or () if may_reach_others(name, config)]
    for name in dict.fromkeys([*names, *(name for name in own if may_reach_others(name, config))]):
        yield f"annotation {name} (left out: the administrator has not allowed it in allowedServiceAnnotations)"


def _missing(spec: InferenceServiceSpec) -> Iterator[str]:
    for _, field in canary_fields(spec):
        yield f"{field} ({HELD_BACK})"
    if spec.explainer and spec.explainer.art:
        yield "spec.explainer.art (the service is served without an explainer; give it containers)"


def _predictor(predictor: PredictorSpec) -> Iterator[str]:
    if predictor.container_concurrency is not None:  # a transformer gets it as its number of workers
        yield "spec.predictor.containerConcurrency"
    for setting in settings_of(predictor):
        if not setting.usable:
            yield f"{setting.field}: {setting.value} ({_DEFAULT_KEPT})"


def _wrappers(spec: InferenceServiceSpec) -> Iterator[str]:
    for kind, component in specified_components(spec):
        if kind == PREDICTOR:
            continue
        field = f"spec.{kind}"
        if component.batcher:
            yield f"{field}.batcher (each request is passed on by itself; write it under spec.predictor)"
        if component.timeout is not None and not is_usable(component.timeout):
            yield f"{field}.timeout: {component.timeout} ({_DEFAULT_KEPT})"


def _model(predictor: PredictorSpec) -> Iterator[str]:
    for name in ("model", *FRAMEWORKS):
        extension = getattr(predictor, name)
        if extension and extension.confidential and extension.confidential.enabled:
            yield f"spec.predictor.{name}.confidential (the model is read as it is)"
        if extension and extension.storage and extension.storage.schema_path:
            yield f"spec.predictor.{name}.storage.schemaPath (no schema is read)"
