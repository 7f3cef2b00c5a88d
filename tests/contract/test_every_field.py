"""No setting is ignored silently.

From objects that have every field, each one is removed once, and renamed once. Either the children change, or what is
named as ignored, or the service is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from isvc_operator.api.autoscaling import ExternalMetric, PodMetric
from isvc_operator.api.components import FRAMEWORKS, ArtExplainerSpec, PredictorExtensionSpec
from isvc_operator.api.core_fields import ContainerFields
from isvc_operator.api.inference_service import InferenceServiceSpec
from isvc_operator.api.serving_runtime import ServingRuntimeSpec
from isvc_operator.api.storage_container import StorageContainerSpec
from isvc_operator.config import OperatorConfig
from tests.support.full_objects import NUMBER, TEXT, full
from tests.support.outcomes import Manifest, Outcome, Path, a_config_map, dotted, outcome_of, paths_in, renamed, without

CONTAINER = {
    TEXT: "container",
    NUMBER: 9,
    "ports[]": {"containerPort": 9000, "name": "grpc", "protocol": "UDP"},
    "volumeMounts[]": {"name": "data", "mountPath": "/data", "readOnly": True},
    "env[]": {"name": "A", "value": "b"},
}
SERVER = {**full(ContainerFields, CONTAINER), "name": "kserve-container"}
VOLUMES = {"volumes[]": {"name": "data", "emptyDir": {"medium": "Memory"}}}
COMPONENT = {
    **CONTAINER,
    **VOLUMES,
    TEXT: "component",
    NUMBER: 7,
    "containers": [{"name": "kserve-container", "image": "mine"}],
    "initContainers": [{"name": "before", "image": "mine"}],
    "overhead": {"cpu": "250m"},
    "resourceId": "kbs:///repository/key/1",
    "canaryTrafficPercent": 10,
    "minReplicas": 2,
    "maxReplicas": 5,
    "metrics[].type": "Resource",
    "target": {"type": "Utilization", "averageUtilization": 60, "averageValue": "2Gi"},
    "storageUris[]": {"uri": "s3://bucket/other", "mountPath": "/mnt/models/other"},
}
MODEL = {
    "storageUri": "s3://bucket/model",
    "modelFormat": {"name": "mine", "version": "2"},
    "protocolVersion": "v2",
    "model.runtime": "mine",
}
QUERY = {
    TEXT: "text",
    NUMBER: 7,
    "backend": "graphite",
    "target": {"averageValue": 4},
}
STORAGE = {"key": "minio", "path": "model", "schemaPath": "schema.json", "parameters": {"bucket": "other"}}
# What is refused, what is served without, and what the other services below have.
LEFT_OUT = frozenset(
    {
        *(
            f"predictor.{name}"
            for name in (*FRAMEWORKS, "workerSpec", "storageUris", "containers", "storageContainerName")
        ),
        "predictor.model.storage",
        "predictor.model.name",
        "canary",
        "explainer.art",
    }
)


def a_service(spec: Manifest, annotations: Manifest | None = None) -> Manifest:
    metadata = {
        "name": "full",
        "namespace": "models",
        "labels": {"example.org/label": "x"},
        "annotations": {"example.org/annotation": "x", **(annotations or {})},
    }
    return {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": metadata, "spec": spec}


def a_runtime(spec: Manifest, name: str = "mine") -> Manifest:
    metadata = {"name": name}
    kind = "ClusterServingRuntime"
    return {"apiVersion": "serving.kserve.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def a_storage_container(name: str) -> Manifest:
    spec = {"container": {"name": "storage-initializer", "image": name}, "supportedUriFormats": [{"regex": "/other$"}]}
    kind = "ClusterStorageContainer"
    return {"apiVersion": "serving.kserve.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


MODEL_PATH = ("spec", "predictor", "model")
FORMAT_PATH = ("spec", "supportedModelFormats", 0)
SMALL_SERVICE = a_service(
    {"predictor": {"model": {"modelFormat": {"name": "mine"}, "storageUri": "s3://bucket/model"}}}
)
SMALL_RUNTIME = a_runtime(
    {
        "supportedModelFormats": [{"name": "mine", "version": "2", "autoSelect": True}, {"name": "pytorch"}],
        "containers": [{"name": "kserve-container", "image": "registry.example/server:1"}],
    }
)
FULL_RUNTIME = a_runtime(
    full(
        ServingRuntimeSpec,
        {
            **COMPONENT,
            "containers": [SERVER],
            "supportedModelFormats": [{"name": "mine", "autoSelect": True}],
            "protocolVersions": ["v1"],
        },
        leave_out=frozenset({"workerSpec", "disabled", "multiModel"}),
    )
)
STORAGE_SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "storage-config", "namespace": "models"},
    "stringData": {"minio": '{"type": "s3", "bucket": "models", "endpoint_url": "https://minio.example"}'},
}
INSTALLED = (SMALL_RUNTIME, a_storage_container("first"), a_storage_container("second"), STORAGE_SECRET)


FULL = full(InferenceServiceSpec, {**COMPONENT, **MODEL}, leave_out=LEFT_OUT)
# The fields of one component at a time, with small ones beside it: a service is rendered whole for each of its fields.
SERVICES = {
    "a model": a_service({"predictor": FULL["predictor"], "transformer": {"containers": [{"image": "mine"}]}}),
    "a transformer": a_service({**SMALL_SERVICE["spec"], "transformer": FULL["transformer"]}),
    "an explainer": a_service({**SMALL_SERVICE["spec"], "explainer": FULL["explainer"]}),
    "an older key": a_service(
        {
            "predictor": {
                "pytorch": full(
                    PredictorExtensionSpec,
                    {**COMPONENT, "storage": STORAGE},
                    leave_out=frozenset({"name", "storageUri", "protocolVersion", "confidential"}),
                )
            }
        },
        {"isvc-operator.io/runtime": "mine"},
    ),
    "own containers": a_service(
        {
            "predictor": {
                "containers": [SERVER, {**SERVER, "name": "beside"}],
                "initContainers": [{**SERVER, "name": "before"}],
                "storageUris": [{"uri": "s3://bucket/other", "mountPath": "/mnt/models/other"}],
                "storageContainerName": "second",
            }
        }
    ),
    "scaled by KEDA": a_service(
        {
            "predictor": {
                **SMALL_SERVICE["spec"]["predictor"],
                "minReplicas": 0,
                "maxReplicas": 5,
                "autoScaling": {
                    "metrics": [
                        {"type": "External", "external": full(ExternalMetric, QUERY)},
                        {"type": "PodMetric", "podmetric": full(PodMetric, {**QUERY, "backend": "opentelemetry"})},
                    ]
                },
            }
        },
        {"serving.kserve.io/autoscalerClass": "keda"},
    ),
    "what is not served": a_service(
        {
            **SMALL_SERVICE["spec"],
            "explainer": {"art": full(ArtExplainerSpec, COMPONENT)},
            "canary": [{"predictor": {**SMALL_SERVICE["spec"]["predictor"], "name": "next"}, "trafficPercent": 10}],
        }
    ),
}


# Names of containers that the operator chooses, as KServe does; and values that are the only ones there are.
SAME_WITHOUT = (
    "spec.predictor.autoScaling.metrics[1].podmetric.metric.backend",
    "spec.transformer.containers[0].name",
    "spec.explainer.containers[0].name",
    "spec.predictor.containers[0].name",
    "spec.container.name",
    "spec.workloadType",
)
# Which runtime is chosen depends on these; see below.
OF_THE_CHOICE = ("spec.predictor.model.runtime", "spec.predictor.model.modelFormat.version", "spec.protocolVersions")


def silent(document: Manifest, others: Sequence[Manifest]) -> Iterator[str]:
    """Yield the fields of the document that nothing depends on."""
    before = outcome_of([document, *others])
    assert before.refused is None
    for path in paths_in(document):
        field = dotted(path)
        if path[0] != "spec" and path[:-1] not in (("metadata", "labels"), ("metadata", "annotations")):
            continue
        if _is_named(field, before) or field.startswith((*SAME_WITHOUT, *OF_THE_CHOICE)):
            continue
        if outcome_of([without(document, path), *others]) == before:
            yield f"{field} removed"
        if isinstance(path[-1], str) and outcome_of([renamed(document, path), *others]) == before:
            yield f"{field} renamed"


def _is_named(path: str, outcome: Outcome) -> bool:
    """Whether the field at the path, or one that holds it, is named as ignored."""
    names = [item.removeprefix("ClusterServingRuntime mine: ").partition(" ")[0] for item in outcome.ignored]
    return any(path == name or path.startswith((f"{name}.", f"{name}[")) for name in names)


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES.keys())
def test_no_field_of_a_service_is_silent(service: Manifest) -> None:
    assert list(silent(service, INSTALLED)) == []


def test_no_field_of_a_storage_container_is_silent() -> None:
    container = {**CONTAINER, "name": "storage-initializer", "image": "mine"}
    spec = full(
        StorageContainerSpec,
        {**CONTAINER, "container": full(ContainerFields, container), "supportedUriFormats": [{"prefix": "s3://"}],
         "workloadType": "initContainer"},
    )  # fmt: skip
    document = {**a_storage_container("full"), "spec": spec}
    uris = [{"uri": f"s3://bucket/{name}", "mountPath": f"/mnt/models/{name}"} for name in ("a", "b")]
    server = {"containers": [{"name": "kserve-container", "image": "mine"}]}

    assert list(silent(document, [a_service({"predictor": {**server, "storageUris": uris}})])) == []


def test_no_field_of_a_runtime_is_silent() -> None:
    assert list(silent(FULL_RUNTIME, [SMALL_SERVICE])) == []


# --- the choice of a runtime --------------------------------------------------------------------------


def a_choice(name: str, *, format_: Manifest, **fields: Any) -> Manifest:
    entry = {"name": "mine", "autoSelect": True, **format_}
    containers = [{"name": "kserve-container", "image": name}]
    return a_runtime({"containers": containers, "supportedModelFormats": [entry], **fields}, name)


def a_request(**model: Any) -> Manifest:
    return a_service(
        {"predictor": {"model": {"modelFormat": {"name": "mine"}, "storageUri": "s3://bucket/model", **model}}}
    )


# Objects, and the fields of the first of them that decide which runtime is chosen. Of equals it is the first by name.
CHOICES: dict[str, tuple[list[Manifest], list[Path]]] = {
    "runtime": (
        [a_request(runtime="b"), a_choice("a", format_={}), a_choice("b", format_={})],
        [(*MODEL_PATH, "runtime")],
    ),
    "version": (
        [
            a_request(modelFormat={"name": "mine", "version": "2"}),
            a_choice("a", format_={"version": "1"}),
            a_choice("b", format_={"version": "2"}),
        ],
        [(*MODEL_PATH, "modelFormat", "version")],
    ),
    "protocol": (
        [
            a_request(protocolVersion="v2"),
            a_choice("a", format_={}, protocolVersions=["v1"]),
            a_choice("b", format_={}, protocolVersions=["v2"]),
        ],
        [(*MODEL_PATH, "protocolVersion")],
    ),
    "a runtime's version": (
        [
            a_choice("a", format_={"version": "1"}),
            a_request(modelFormat={"name": "mine", "version": "1"}),
            a_choice("b", format_={"version": "1"}),
        ],
        [(*FORMAT_PATH, "version")],
    ),
    "priority": (
        [a_choice("b", format_={"priority": 2}), a_request(), a_choice("a", format_={"priority": 1})],
        [(*FORMAT_PATH, "priority")],
    ),
    "auto-select": (
        [a_choice("a", format_={}), a_request(), a_choice("b", format_={})],
        [(*FORMAT_PATH, "autoSelect")],
    ),
    "a runtime's protocols": (
        [a_choice("a", format_={}, protocolVersions=["v2"]), a_request(), a_choice("b", format_={})],
        [("spec", "protocolVersions"), ("spec", "protocolVersions", 0)],
    ),
    "disabled": (
        [a_choice("a", format_={}, disabled=True), a_request(), a_choice("b", format_={})],
        [("spec", "disabled")],
    ),
    "several models": (
        [a_choice("a", format_={}, multiModel=True), a_request(), a_choice("b", format_={})],
        [("spec", "multiModel")],
    ),
    "several nodes": (
        [a_choice("a", format_={}, workerSpec={"containers": []}), a_request(), a_choice("b", format_={})],
        [("spec", "workerSpec")],
    ),
}


@pytest.mark.parametrize(("documents", "paths"), CHOICES.values(), ids=CHOICES.keys())
def test_each_field_of_the_choice_of_a_runtime_decides(documents: list[Manifest], paths: list[Path]) -> None:
    before = outcome_of(documents)

    assert before.refused is None
    assert [path for path in paths if outcome_of([without(documents[0], path), *documents[1:]]) == before] == []


# --- the ConfigMap ------------------------------------------------------------------------------------

CONFIG = full(
    OperatorConfig,
    {
        TEXT: "text",
        NUMBER: 7,
        "domainTemplate": "{{ .Name }}.{{ .IngressDomain }}",
        "additionalDomainTemplates": ["{{ .Name }}.other.example"],
        "additionalIngressDomains": ["second.example"],
        "pathTemplate": "/{{ .Namespace }}/{{ .Name }}",
        "kserveIngressGateway": "gateways/kserve",
        "urlScheme": "https",
        "allowedServiceAnnotations": ["nginx.ingress.kubernetes.io/custom"],
        "storageInitializer.cpuRequest": "2",
        "storageInitializer.cpuLimit": "3",
        "storageInitializer.memoryRequest": "2Gi",
        "storageInitializer.memoryLimit": "3Gi",
        "caBundleVolumeMountPath": "/certificates",
        "cache": {"hostPath": "/var/cache", "maxSize": "10Gi"},
        "enableModelcar": False,
        "ociModelMode": "native",
        "cpuModelcar": "20m",
        "memoryModelcar": "30Mi",
        "resource.cpuRequest": "500m",
        "resource.cpuLimit": "4",
        "resource.memoryRequest": "1Gi",
        "resource.memoryLimit": "4Gi",
        "podDisruptionBudget": False,
        "networkPolicy.default": "namespace",
        "ingressNamespaces": ["ingress"],
        "ingressCidrs": ["10.0.0.0/24"],
        "metricsNamespaces": ["monitoring"],
        "serviceAnnotationDisallowedList": ["example.org/hidden"],
        "serviceLabelDisallowedList": ["example.org/label"],
        "defaultUrl": "https://sink.example",
    },
    # They change no child; tests/unit/operator_core/reconcile/test_upgrades.py and
    # tests/unit/operator_core/render/test_pod_security.py show their effect.
    leave_out=frozenset(
        {"inferenceService.upgradePolicy", "inferenceService.rolloutsPerMinute", "podSecurity.restricted"}
    ),
)
# What a field needs beside it to have an effect.
GATEWAY_API: Manifest = {"ingress": {"enableGatewayApi": True}}
CLOSED: Manifest = {"networkPolicy": {"default": "namespace"}}
PATH: Manifest = {"ingress": {"pathTemplate": "/{{ .Name }}"}}
SINK: Manifest = {"logger": {"defaultUrl": "https://sink.example"}}
NEEDED = {
    "storageInitializer.caBundleVolumeMountPath": {"storageInitializer": {"caBundleConfigMapName": "certificates"}},
    "storageInitializer.enableOciModelSupport": {"storageInitializer": {"enableModelcar": False}},
    "ingress.kserveIngressGateway": GATEWAY_API,
    "ingress.disableHTTPRouteTimeout": GATEWAY_API,
    "ingress.pathTemplate": GATEWAY_API,
    "networkPolicy.ingressNamespaces": CLOSED,
    "networkPolicy.ingressCidrs": CLOSED,
    "networkPolicy.metricsNamespaces": CLOSED,
    "logger.caBundle": SINK,
    "logger.caCertFile": {"logger": {**SINK["logger"], "caBundle": "sink-ca"}},
    "ingress.pathIngress.annotations": PATH,
    "ingress.pathIngress.annotations.example.org/key": PATH,
}


def secret(name: str, **data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def account(name: str, holds: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, "secrets": [{"name": holds}]}


KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}
# Of each kind of storage one service, with the objects that it refers to.
STORED: dict[str, list[Manifest]] = {
    "claim": [a_request(storageUri="pvc://claim/model"), SMALL_RUNTIME],
    "s3": [a_request(), SMALL_RUNTIME, account("default", "keys"), secret("keys", **KEYS)],
    "gs": [
        a_request(storageUri="gs://bucket/model"),
        SMALL_RUNTIME,
        account("default", "google"),
        secret("google", **{"gcloud-application-credentials.json": "{}"}),
    ],
    "image": [a_request(storageUri="oci://registry.example/model:1"), SMALL_RUNTIME],
    "by key": [a_request(storageUri=None, storage=STORAGE), SMALL_RUNTIME, STORAGE_SECRET],
    "by the secret of an annotation": [
        a_service(SMALL_SERVICE["spec"], {"text": "keys"}),
        SMALL_RUNTIME,
        secret("keys", **KEYS),
    ],
    "logged": [
        a_service({"predictor": {**SMALL_SERVICE["spec"]["predictor"], "logger": {"mode": "all"}}}),
        SMALL_RUNTIME,
    ],
    "scaled": [
        a_service(
            {
                "predictor": {
                    **SMALL_SERVICE["spec"]["predictor"],
                    "minReplicas": 2,
                    "maxReplicas": 5,
                    "autoScaling": {
                        "metrics": [
                            {"type": "PodMetric", "podmetric": {"metric": {"query": "q"}, "target": {"value": 1}}}
                        ]
                    },
                }
            },
            {"serving.kserve.io/autoscalerClass": "keda"},
        ),
        SMALL_RUNTIME,
    ],
    "own container": [
        a_service(
            {"predictor": {"containers": [{"name": "kserve-container", "image": "mine"}]}},
            {"example.org/hidden": "x", "nginx.ingress.kubernetes.io/custom": "x"},
        )
    ],
}


def fields_in(config: Manifest) -> list[Path]:
    """Return the paths of the fields of all sections; the two values of the cache belong together."""
    found = [path for path in paths_in(config) if not isinstance(path[-1], int) and "cache" not in path[:-1]]
    return [path for path in found if not isinstance(_at(config, path), dict) or path[-1] in ("cache", "annotations")]


def _at(document: Any, path: Path) -> Any:
    for step in path:
        document = document[step]
    return document


def alone(config: Manifest, path: Path, needed: Manifest) -> Manifest:
    """Return a configuration of one field, beside those that it needs."""
    section, *inner = path
    value = _at(config, path)
    for step in reversed(inner):
        value = {step: value}
    return {**needed, section: {**needed.get(section, {}), **value}}


@pytest.mark.parametrize("path", fields_in(CONFIG), ids=dotted)
def test_no_field_of_the_config_map_is_silent(path: Path) -> None:
    needed = NEEDED.get(dotted(path), {})
    config, without_it = a_config_map(alone(CONFIG, path, needed)), a_config_map(needed)

    assert any(outcome_of([*items, config]) != outcome_of([*items, without_it]) for items in STORED.values())
