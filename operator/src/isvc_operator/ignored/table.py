"""Fields, annotations and settings that have no effect: what happens instead, and the values that ask for just that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import not_
from typing import Any, Final

from isvc_operator.api import names
from isvc_operator.api.components import FRAMEWORKS


def _one_of(*values: object) -> Callable[[Any], bool]:
    return lambda value: value in values


def _truth(value: str) -> bool:
    return value.lower() in ("true", "false")


@dataclass(frozen=True)
class NoEffect:
    """What happens instead, the values for which that is what they ask for, and whether a message has the value."""

    instead: str = ""
    unless: Callable[[Any], bool] = lambda _: False
    shown: bool = False


Rows = Mapping[str, NoEffect]


def _below(places: Iterable[str], rows: Rows) -> Rows:
    return {f"{place}.{field}": row for place in places for field, row in rows.items()}


_NO_CANARY: Final = (
    "no canary is created: a new service is served as a whole, and later changes of its pods are held back"
)
_DEFAULT_KEPT: Final = NoEffect(
    "the server's default is kept; give a number above 0", lambda number: number > 0, shown=True
)
_COMPONENTS: Final = [f"spec.{kind}" for kind in (names.PREDICTOR, names.TRANSFORMER, names.EXPLAINER)]

# By path. Messages have this order.
SERVICE: Final[Rows] = {
    "spec.canary": NoEffect(_NO_CANARY, not_),
    **_below(_COMPONENTS, {"canaryTrafficPercent": NoEffect(_NO_CANARY, lambda share: share >= 100, shown=True)}),
    "spec.explainer.art": NoEffect("the service is served without an explainer; give it containers"),
    "spec.predictor.containerConcurrency": NoEffect(),  # a transformer gets it as its number of workers
    **_below(
        ["spec.predictor"],
        {
            "batcher.maxBatchSize": _DEFAULT_KEPT,
            "batcher.maxLatency": _DEFAULT_KEPT,
            "batcher.timeout": _DEFAULT_KEPT,
            "timeout": _DEFAULT_KEPT,
        },
    ),
    **_below(
        _COMPONENTS[1:],
        {
            "batcher": NoEffect("each request is passed on by itself; write it under spec.predictor"),
            "timeout": _DEFAULT_KEPT,
        },
    ),
    **_below(
        [f"spec.predictor.{model}" for model in ("model", *FRAMEWORKS)],
        {
            "confidential": NoEffect("the model is read as it is", lambda given: not given.enabled),
            "storage.schemaPath": NoEffect("no schema is read", not_),
        },
    ),
    **_below(
        _COMPONENTS,
        {
            "logger.storage": NoEffect("payloads are sent to the url, and stored nowhere"),
            "logger.marshallerUrl": NoEffect("payloads are sent as they are", not_),
            "logger.batchSize": NoEffect("each payload is sent by itself", _one_of(1), shown=True),
            "logger.batchInterval": NoEffect("each payload is sent at once", _one_of("", "0", "0s"), shown=True),
        },
    ),
}

_OF_MODEL_MESH: Final = NoEffect("only ModelMesh reads it")
RUNTIME: Final[Rows] = {
    "spec.hostIPC": NoEffect("as with KServe, pods share the node's memory only if a service sets it", not_),
    "spec.grpcEndpoint": _OF_MODEL_MESH,
    "spec.grpcDataEndpoint": _OF_MODEL_MESH,
    "spec.httpDataEndpoint": _OF_MODEL_MESH,
    "spec.storageHelper": _OF_MODEL_MESH,
    "spec.builtInAdapter": _OF_MODEL_MESH,
    "spec.replicas": _OF_MODEL_MESH,
}

_OLD_SCALING: Final = NoEffect("write scaleMetric and scaleTarget in the component")
_NO_SECRET: Final = NoEffect("payloads are sent to a URL without a secret, and stored nowhere")
# KServe's annotations of a service, by name.
ANNOTATIONS: Final[Rows] = {
    "serving.kserve.io/deploymentMode": NoEffect(
        "the service is served as by Standard", _one_of("Standard", "RawDeployment")
    ),
    names.ANNOTATION_AUTOSCALER: NoEffect(
        "the service is scaled as by hpa; write hpa, keda, external or none", _one_of("hpa", "keda", "external", "none")
    ),
    "serving.kserve.io/disable-localmodel": NoEffect(
        "storageInitializer.cache of the ConfigMap decides", _one_of("true")
    ),
    "serving.kserve.io/disable-auto-update": NoEffect("a runtime that changes rolls the pods", _one_of("false")),
    "serving.kserve.io/enable-prometheus-scraping": NoEffect(
        "the pods have the runtime's annotations for it; write others under spec.predictor.annotations",
        _one_of("false"),
    ),
    "serving.kserve.io/gke-accelerator": NoEffect(
        "write nodeSelector: {cloud.google.com/gke-accelerator: …} under spec.predictor"
    ),
    "serving.kserve.io/enable-metric-aggregation": NoEffect(
        "the metrics of each container are served as they are", _one_of("false")
    ),
    "serving.kserve.io/enable-tag-routing": NoEffect("no canary is created, so no tag leads to one", _one_of("false")),
    "serving.kserve.io/gpu-resource-types": NoEffect("a container's resources are taken as they are written"),
    "serving.kserve.io/logger-secret-file": _NO_SECRET,
    "serving.kserve.io/logger-secret-name": _NO_SECRET,
    "serving.kserve.io/logger-secret-path": _NO_SECRET,
    "serving.kserve.io/metrics": _OLD_SCALING,
    "serving.kserve.io/nodegroup": NoEffect("storageInitializer.cache of the ConfigMap keeps models on nodes"),
    names.ANNOTATION_STOP: NoEffect("only true stops a service", _truth),
    names.ANNOTATION_READONLY: NoEffect("only false lets the server write to its model", _truth),
    "serving.kserve.io/targetUtilizationPercentage": _OLD_SCALING,
    "serving.kserve.io/storage-initializer-uid": NoEffect(
        "the storage-initializer runs as user 1000; a ClusterStorageContainer changes that", _one_of("1000")
    ),
}
# Those that are read. Others in these domains are KServe's newer ones, or misspelled.
READ_ANNOTATIONS: Final = (
    names.ANNOTATION_ALLOW_PATTERNS,
    names.ANNOTATION_IGNORE_PATTERNS,
    names.ANNOTATION_LOGGER_FRACTION,
    names.ANNOTATION_NETWORK_POLICY,
    names.ANNOTATION_PVC_MODE,
    names.ANNOTATION_RUNTIME,
    names.ANNOTATION_SETTINGS,
    names.ANNOTATION_SHA256,
    names.ANNOTATION_STORAGE_RESOURCES,
    names.ANNOTATION_TLS_SECRET,
    names.ANNOTATION_UPGRADE_POLICY,
)
# Of these, those that are read in the metadata of a service, and not in its components; as with KServe.
OF_METADATA: Final = frozenset(
    {
        names.ANNOTATION_NETWORK_POLICY,
        names.ANNOTATION_RUNTIME,
        names.ANNOTATION_STOP,
        names.ANNOTATION_TLS_SECRET,
        names.ANNOTATION_UPGRADE_POLICY,
    }
)
# Labels of which the same is true.
LABELS_OF_METADATA: Final = frozenset({names.LABEL_SERVICE_ENVELOPE, names.LABEL_VISIBILITY})
# Those of a runtime.
OF_RUNTIMES: Final = frozenset(
    {
        names.ANNOTATION_FIXED_IMAGE,
        names.ANNOTATION_SERVER_TYPE,
        names.ANNOTATION_SETTINGS,
        names.ANNOTATION_YIELDS,
    }
)
# Parts of domains that others are mistaken for; ``serving.kubeflow.org`` was KServe's.
OUR_WORDS: Final = frozenset({"isvc-operator", "kserve", "kubeflow"})
# The domains of annotations that only Knative reads.
KNATIVE: Final = (
    "autoscaling.knative.dev",
    "features.knative.dev",
    "queue.sidecar.serving.knative.dev",
    "serving.knative.dev",
)

_NO_COLLECTOR: Final = NoEffect("no OpenTelemetryCollector is created")
_ONE_BY_ONE: Final = NoEffect("each payload is sent by itself", _one_of("", "0", 0, 1, "1"))
# KServe's settings, by key of the ConfigMap, or by key and field.
SETTINGS: Final[Rows] = {
    "agent": NoEffect("pods have no agent container"),
    "batcher": NoEffect("pods have no batcher container; our runtimes form batches themselves"),
    "deploy.defaultDeploymentMode": NoEffect(
        "services are served as by Standard", _one_of("Standard", "RawDeployment")
    ),
    "deploy.deploymentRolloutStrategy": NoEffect("write deploymentStrategy in the components of services"),
    "explainers": NoEffect("an explainer is served if it has containers"),
    "localModel.enabled": NoEffect("write storageInitializer.cache to keep models on the nodes", _one_of(False)),
    "logger.batchInterval": _ONE_BY_ONE,
    "logger.batchSize": _ONE_BY_ONE,
    "logger.marshallerUrl": NoEffect("payloads are sent as they are"),
    "logger.storage": NoEffect("payloads are sent to a URL, and stored nowhere"),
    "metricsAggregator.enableMetricAggregation": NoEffect(
        "the metrics of each server are served as they are", _one_of("false", False)
    ),
    "metricsAggregator.enablePrometheusScraping": NoEffect(
        "pods have the runtime's annotations", _one_of("false", False)
    ),
    "multiNode": NoEffect("the pods of a service do not work together"),
    "opentelemetryCollector.metricReceiverEndpoint": _NO_COLLECTOR,
    "opentelemetryCollector.resource": _NO_COLLECTOR,
    "opentelemetryCollector.scrapeInterval": _NO_COLLECTOR,
    "router": NoEffect("an InferenceGraph is not served"),
    "storageInitializer.ociInsecureRegistry": NoEffect(
        "the nodes pull images, by their own settings", _one_of(False, "", "false")
    ),
}
# Details of what a setting above turns on, of Istio, which Standard mode does not use, or what KServe does not use.
DETAILS: Final = frozenset(
    {
        "ingress.disableIstioVirtualHost", "ingress.ingressGateway", "ingress.knativeLocalGatewayService",
        "ingress.localGateway", "ingress.localGatewayService",
        "localModel.defaultJobImage", "localModel.disableVolumeManagement",
        "localModel.fsGroup", "localModel.jobNamespace", "localModel.jobTTLSecondsAfterFinished",
        "localModel.reconcilationFrequencyInSecs", "logger.cpuLimit", "logger.cpuRequest", "logger.image",
        "logger.memoryLimit", "logger.memoryRequest",
    }
)  # fmt: skip
