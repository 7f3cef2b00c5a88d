"""Settings of KServe's ConfigMap that have no effect are named, and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from isvc_operator.config import OperatorConfig
from isvc_operator.ignored.walker import ignored_settings

# As KServe 0.20 ships them.
SHIPPED: dict[str, dict[str, Any]] = {
    "explainers": {"art": {"image": "kserve/art-explainer", "defaultImageVersion": "latest"}},
    "storageInitializer": {
        "image": "kserve/storage-initializer:latest", "memoryRequest": "100Mi", "memoryLimit": "1Gi",
        "cpuRequest": "100m", "cpuLimit": "1", "caBundleConfigMapName": "",
        "caBundleVolumeMountPath": "/etc/ssl/custom-certs", "enableModelcar": True, "cpuModelcar": "10m",
        "memoryModelcar": "15Mi", "uidModelcar": 1010,
    },
    "credentials": {
        "storageSpecSecretName": "storage-config",
        "storageSecretNameAnnotation": "serving.kserve.io/storageSecretName",
        "gcs": {"gcsCredentialFileName": "gcloud-application-credentials.json"},
        "s3": {
            "s3AccessKeyIDName": "AWS_ACCESS_KEY_ID", "s3SecretAccessKeyName": "AWS_SECRET_ACCESS_KEY",
            "s3Endpoint": "", "s3UseHttps": "", "s3Region": "", "s3VerifySSL": "", "s3UseVirtualBucket": "",
            "s3UseAccelerate": "", "s3UseAnonymousCredential": "", "s3CABundleConfigMap": "", "s3CABundle": "",
        },
    },
    "ingress": {
        "enableGatewayApi": False, "kserveIngressGateway": "kserve/kserve-ingress-gateway",
        "ingressGateway": "knative-serving/knative-ingress-gateway",
        "localGateway": "knative-serving/knative-local-gateway",
        "localGatewayService": "knative-local-gateway.istio-system.svc.cluster.local", "ingressDomain": "example.com",
        "ingressClassName": "istio", "domainTemplate": "{{ .Name }}-{{ .Namespace }}.{{ .IngressDomain }}",
        "urlScheme": "http", "disableIstioVirtualHost": False, "disableIngressCreation": False,
        "disableHTTPRouteTimeout": False,
    },
    "logger": {"image": "kserve/agent:latest", "defaultUrl": "http://default-broker"},
    "batcher": {"image": "kserve/agent:latest", "maxBatchSize": "32", "maxLatency": "5000"},
    "agent": {"image": "kserve/agent:latest"},
    "router": {"image": "kserve/router:latest", "imagePullPolicy": "IfNotPresent"},
    "deploy": {"defaultDeploymentMode": "Serverless"},
    "metricsAggregator": {"enableMetricAggregation": "false", "enablePrometheusScraping": "false"},
    "localModel": {
        "enabled": False, "jobNamespace": "kserve-localmodel-jobs", "defaultJobImage": "kserve/storage-initializer",
        "fsGroup": 1000, "jobTTLSecondsAfterFinished": 3600, "reconcilationFrequencyInSecs": 60,
        "disableVolumeManagement": False,
    },
    "security": {"autoMountServiceAccountToken": True},
    "inferenceService": {
        "resource": {"cpuLimit": "1", "memoryLimit": "2Gi", "cpuRequest": "1", "memoryRequest": "2Gi"}
    },
    "opentelemetryCollector": {"scrapeInterval": "5s"},
    "autoscaler": {"scaleUpStabilizationWindowSeconds": "0", "scaleDownStabilizationWindowSeconds": "300"},
}  # fmt: skip


def ignored(**keys: Any) -> list[str]:
    return ignored_settings({key: json.dumps(value) for key, value in keys.items()})


def test_of_kserves_own_configmap_these_have_no_effect() -> None:
    assert ignored(**SHIPPED) == [
        "agent (pods have no agent container)",
        "batcher (pods have no batcher container; our runtimes form batches themselves)",
        'deploy.defaultDeploymentMode: "Serverless" (services are served as by Standard)',
        "explainers (an explainer is served if it has containers)",
        'opentelemetryCollector.scrapeInterval: "5s" (no OpenTelemetryCollector is created)',
        "router (an InferenceGraph is not served)",
    ]


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"ingress": {"pathTemplate": "/{{ .Name }}"}},
         "ingress.pathTemplate (an Ingress does not rewrite paths by itself: write enableGatewayApi or pathIngress as "
         "well)"),
        ({"ingress": {"pathIngress": {"annotations": {"a": "b"}}, "enableGatewayApi": True}},
         "ingress.pathIngress (an HTTPRoute rewrites the path by itself)"),
        ({"ingress": {"tlsSecretName": "a", "enableGatewayApi": True}},
         "ingress.tlsSecretName (with enableGatewayApi, the listeners of the Gateway have the certificates)"),
        ({"deploy": {"deploymentRolloutStrategy": {}}},
         "deploy.deploymentRolloutStrategy: {} (write deploymentStrategy in the components of services)"),
        ({"metricsAggregator": {"enableMetricAggregation": "true"}},
         'metricsAggregator.enableMetricAggregation: "true" (the metrics of each server are served as they are)'),
        ({"inferenceService": {"serviceLabelDisallowedList": ["team"]}},
         'inferenceService.serviceLabelDisallowedList: ["team"] (all labels of a service are copied)'),
        ({"logger": {"storage": {"path": "logs"}, "batchSize": 1, "image": "kserve/agent:latest"}},
         'logger.storage: {"path": "logs"} (payloads are sent to a URL, and stored nowhere)'),
        ({"logger": {"batchSize": 10, "batchInterval": "0"}},
         "logger.batchSize: 10 (each payload is sent by itself)"),
        ({"ingress": {"ingressDomian": "a.test"}}, "ingress.ingressDomian (did you mean ingressDomain?)"),
        ({"ingres": {}}, "ingres (did you mean ingress?)"),
        ({"zebra": {}}, "zebra"),
        ({"credentials": {"s3": {"s3Endpont": ""}}}, "credentials.s3.s3Endpont (did you mean s3Endpoint?)"),
        ({"storageInitializer": {"cache": {"hostPath": "/c", "maxSize": "1Gi", "minSize": 1}}},
         "storageInitializer.cache.minSize (did you mean maxSize?)"),
        ({"deploy": []}, "deploy (it is no JSON object)"),
        ({"a\nb": {}}, r"a\nb"),
    ],
)  # fmt: skip
def test_a_setting_without_effect_is_named_with_what_happens_instead(keys: dict[str, Any], named: str) -> None:
    assert ignored(**keys) == [named]


@pytest.mark.parametrize(
    "document",
    [
        {"pathTemplate": ""},
        {"pathTemplate": "/{{ .Name }}", "enableGatewayApi": True, "tlsSecretName": ""},
        {"tlsSecretName": "a"},
        {"pathTemplate": "/{{ .Name }}", "pathIngress": {"annotations": {}}},
    ],
)
def test_a_setting_that_goes_with_the_kind_of_route_is_not_named(document: dict[str, Any]) -> None:
    assert ignored(ingress=document) == []


@pytest.mark.parametrize("mode", ["Standard", "RawDeployment"])
def test_a_setting_that_asks_for_what_is_done_is_not_named(mode: str) -> None:
    assert ignored(deploy={"defaultDeploymentMode": mode}) == []


@pytest.mark.parametrize("value", ["false", False])
def test_a_switch_that_is_off_is_not_named(value: object) -> None:
    assert ignored(metricsAggregator={"enableMetricAggregation": value, "enablePrometheusScraping": value}) == []


def test_kserves_own_explanation_of_the_keys_is_not_named() -> None:
    assert ignored_settings({"_example": "# anything"}) == []


def test_a_key_that_is_not_json_is_named() -> None:
    assert ignored_settings({"deploy": "[" * 100_000}) == ["deploy (it is no JSON object)"]


def test_the_first_twenty_of_many_are_named() -> None:
    found = ignored(**{f"key{number:03}": {} for number in range(1000)})

    assert (len(found), found[-1]) == (21, "and others")


def fields(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        alias = f"{path}{field.alias or name}"
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from fields(inner, f"{alias}.")
        else:
            yield alias


@pytest.mark.parametrize("path", sorted(fields(OperatorConfig)))
def test_a_setting_that_is_read_is_not_named_and_with_another_name_it_is(path: str) -> None:
    def written(name: str) -> dict[str, Any]:
        *parents, last = name.split(".")
        document: Any = {last: None}
        for parent in reversed(parents):
            document = {parent: document}
        return document

    assert ignored(**written(path)) == []
    assert [one.partition(" ")[0] for one in ignored(**written(f"{path}Q"))] == [f"{path}Q"]
