"""Fields that are accepted and not supported are all reported."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from isvc_operator.api.parsing import parse_serving_runtime
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.config import CredentialsConfig, LoggerConfig
from isvc_operator.ignored.walker import unused_annotations, unused_fields, unused_parts
from isvc_operator.resolve.ignored import unread_settings
from isvc_operator.resolve.runtime import ChosenRuntime
from tests.support.builders import a_runtime, a_service
from tests.support.source_tree import ROOT

CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}


def told(**fields: Any) -> tuple[str, ...]:
    return tuple(unused_fields(a_service(**fields)))


def test_the_story_uses_only_supported_fields() -> None:
    assert told() == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("containerConcurrency", 0),
    ],
)
def test_an_unsupported_field_of_the_predictor_is_reported(field: str, value: Any) -> None:
    assert told(predictor={field: value}) == (f"spec.predictor.{field}",)


CANARY = [{"predictor": {"name": "next", "model": {"modelFormat": {"name": "pytorch"}}}}]
HELD_BACK = "(no canary is created: a new service is served as a whole, and later changes of its pods are held back)"
NOT_MADE = {
    "canary": (CANARY, f"spec.canary {HELD_BACK}"),
    "explainer": (
        {"art": {"type": "SquareAttack"}},
        "spec.explainer.art (the service is served without an explainer; give it containers)",
    ),
}


@pytest.mark.parametrize("field", NOT_MADE)
def test_an_unsupported_component_is_reported_with_what_happens_instead(field: str) -> None:
    value, expected = NOT_MADE[field]
    assert told(spec={field: value}) == (expected,)


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, [f"0 {HELD_BACK}"]), (99, [f"99 {HELD_BACK}"]), (100, [])], ids=str
)
def test_a_share_of_the_traffic_is_reported_unless_it_is_all(percent: int, expected: list[str]) -> None:
    fields = [f"spec.predictor.canaryTrafficPercent: {text}" for text in expected]

    assert told(predictor={"canaryTrafficPercent": percent}) == tuple(fields)


@pytest.mark.parametrize("kind", ["transformer", "explainer"])
def test_a_wrapper_of_containers_is_created_with_its_workers_and_timeout(kind: str) -> None:
    assert told(spec={kind: {**CONTAINERS, "minReplicas": 2, "containerConcurrency": 4, "timeout": 5}}) == ()


@pytest.mark.parametrize("kind", ["transformer", "explainer"])
def test_an_unsupported_field_of_a_wrapper_is_reported(kind: str) -> None:
    assert told(spec={kind: {**CONTAINERS, "timeout": 0, "batcher": {}}}) == (
        f"spec.{kind}.batcher (each request is passed on by itself; write it under spec.predictor)",
        f"spec.{kind}.timeout: 0 (the server's default is kept; give a number above 0)",
    )


@pytest.mark.parametrize(("key", "model"), [("model", {"modelFormat": {"name": "pytorch"}}), ("pytorch", {})])
def test_confidential_storage_is_reported_with_its_key(key: str, model: dict[str, Any]) -> None:
    asked = told(model=None, predictor={key: {**model, "confidential": {"enabled": True}}})
    not_asked = told(model=None, predictor={key: {**model, "confidential": {"enabled": False}}})

    assert asked == (f"spec.predictor.{key}.confidential (the model is read as it is)",)
    assert not_asked == ()


def test_components_are_reported_before_the_predictors_fields() -> None:
    assert told(spec={"canary": CANARY}, predictor={"timeout": 0, "containerConcurrency": 1}) == (
        f"spec.canary {HELD_BACK}",
        "spec.predictor.containerConcurrency",
        "spec.predictor.timeout: 0 (the server's default is kept; give a number above 0)",
    )


def test_batching_and_the_timeout_are_supported() -> None:
    assert told(predictor={"batcher": {"maxBatchSize": 8, "maxLatency": 50, "timeout": 60}, "timeout": 5}) == ()


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize("field", ["maxBatchSize", "maxLatency", "timeout"])
def test_an_unusable_batch_setting_is_reported_with_what_happens_instead(field: str, value: int) -> None:
    assert told(predictor={"batcher": {field: value}}) == (
        f"spec.predictor.batcher.{field}: {value} (the server's default is kept; give a number above 0)",
    )


def told_annotations(**fields: Any) -> tuple[str, ...]:
    return tuple(unused_annotations(a_service(**fields), CredentialsConfig()))


ANNOTATIONS = {
    "deploymentMode": ("Serverless", "the service is served as by Standard"),
    "autoscalerClass": ("kpa", "the service is scaled as by hpa; write hpa, keda, external or none"),
    "disable-auto-update": ("true", "a runtime that changes rolls the pods"),
    "enable-prometheus-scraping": (
        "true",
        "the pods have the runtime's annotations for it; write others under spec.predictor.annotations",
    ),
    "gke-accelerator": (
        "nvidia-tesla-t4",
        "write nodeSelector: {cloud.google.com/gke-accelerator: …} under spec.predictor",
    ),
    "disable-localmodel": ("false", "storageInitializer.cache of the ConfigMap decides"),
    "enable-metric-aggregation": ("true", "the metrics of each container are served as they are"),
    "enable-tag-routing": ("true", "no canary is created, so no tag leads to one"),
    "gpu-resource-types": ("[]", "a container's resources are taken as they are written"),
    "logger-secret-name": ("sink", "payloads are sent to a URL without a secret, and stored nowhere"),
    "metrics": ("cpu", "write scaleMetric and scaleTarget in the component"),
    "targetUtilizationPercentage": ("80", "write scaleMetric and scaleTarget in the component"),
    "nodegroup": ("gpus", "storageInitializer.cache of the ConfigMap keeps models on nodes"),
    "storage-initializer-uid": (
        "1337",
        "the storage-initializer runs as user 1000; a ClusterStorageContainer changes that",
    ),
}


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_an_unsupported_annotation_of_kserve_is_reported(name: str) -> None:
    value, instead = ANNOTATIONS[name]
    given = {f"serving.kserve.io/{name}": value}
    expected = (f"annotation serving.kserve.io/{name}: {value} ({instead})",)

    assert told_annotations(annotations=given) == expected
    assert told_annotations(predictor={"annotations": given}) == expected
    assert told_annotations(annotations=given, predictor={"annotations": given}) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("serving.kserve.io/deploymentMode", "Standard"),
        ("serving.kserve.io/deploymentMode", "RawDeployment"),
        ("serving.kserve.io/autoscalerClass", "external"),
        ("serving.kserve.io/autoscalerClass", "keda"),
        ("serving.kserve.io/disable-auto-update", "false"),
        ("serving.kserve.io/disable-localmodel", "true"),
        ("serving.kserve.io/enable-tag-routing", "false"),
        ("serving.kserve.io/stop", "true"),
        ("serving.kserve.io/storageSecretName", "minio"),
        ("isvc-operator.io/runtime", "isvc-mar"),
        ("storage.isvc-operator.io/pvc-mode", "direct"),
        ("storage.isvc-operator.io/sha256", "abc"),
        ("storage.isvc-operator.io/resources", "{}"),
        ("storage.kserve.io/readonly", "false"),
        ("prometheus.kserve.io/port", "8080"),
        ("team", "vision"),
    ],
)
def test_an_annotation_for_the_default_behaviour_is_not_reported(name: str, value: str) -> None:
    assert told_annotations(annotations={name: value}) == ()


def told_labels(**labels: str) -> list[str]:
    return list(unused_parts(a_service(labels=labels), CredentialsConfig()))


def test_a_service_that_only_knative_would_hide_is_reported() -> None:
    knatives = {"networking.knative.dev/visibility": "cluster-local"}

    assert told_labels(**knatives) == [
        "label networking.knative.dev/visibility: cluster-local (only Knative reads it; write "
        "networking.kserve.io/visibility)"
    ]
    assert told_labels(**knatives, **{"networking.kserve.io/visibility": "cluster-local"}) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("serving.kserve.io/stopp", "did you mean stop?"),
        ("serving.kserve.io/zebra", "it is not known"),
        ("isvc-operator.io/runtme", "did you mean runtime?"),
        ("storage.isvc-operator.io/sha265", "did you mean sha256?"),
        ("storage.kserve.io/readOnly", "did you mean readonly?"),
    ],
)
def test_an_unknown_annotation_of_kserve_or_of_ours_is_reported(name: str, hint: str) -> None:
    assert told_annotations(annotations={name: "true"}) == (f"annotation {name} ({hint})",)


def test_an_annotation_that_only_knative_reads_is_reported() -> None:
    assert told_annotations(annotations={"autoscaling.knative.dev/target": "5"}) == (
        "annotation autoscaling.knative.dev/target: 5 (only Knative reads it)",
    )


def test_the_annotation_of_secrets_has_the_name_that_the_administrator_chose() -> None:
    name = "serving.kserve.io/mySecret"
    config = CredentialsConfig(storage_secret_name_annotation=name)

    assert list(unused_annotations(a_service(annotations={name: "minio"}), config)) == []


SETTINGS = {"batcher": {"maxBatchSize": 8, "maxLatency": 50, "timeout": 60}, "timeout": 5}
FIELDS = {
    "batcher.maxBatchSize": "MAX_BATCH_SIZE",
    "batcher.maxLatency": "MAX_LATENCY",
    "batcher.timeout": "BATCH_TIMEOUT",
    "timeout": "REQUEST_TIMEOUT",
}


def unread(runtime: ServingRuntime | None, settings: dict[str, Any]) -> list[str]:
    chosen = runtime and ChosenRuntime(runtime, cluster_wide=True, protocol="v1")
    return list(unread_settings(a_service(predictor=settings), chosen, LoggerConfig()))


def a_runtime_that_reads(*variables: str) -> ServingRuntime:
    return a_runtime("theirs", metadata_annotations={"isvc-operator.io/settings": ", ".join(variables)})


def test_settings_that_a_runtimes_server_may_not_read_are_reported() -> None:
    assert unread(a_runtime_that_reads("MAX_LATENCY", "BATCH_TIMEOUT"), SETTINGS) == [
        "spec.predictor.batcher.maxBatchSize (the server of runtime theirs gets MAX_BATCH_SIZE, which its annotation "
        "isvc-operator.io/settings does not list)",
        "spec.predictor.timeout (the server of runtime theirs gets REQUEST_TIMEOUT, which its annotation "
        "isvc-operator.io/settings does not list)",
    ]


def test_a_runtime_that_says_nothing_of_settings_may_read_none() -> None:
    assert [said.split()[0] for said in unread(a_runtime(), SETTINGS)] == [f"spec.predictor.{one}" for one in FIELDS]


def test_settings_of_the_users_own_container_are_reported() -> None:
    assert unread(None, {"timeout": 5}) == [
        "spec.predictor.timeout (the container gets REQUEST_TIMEOUT, and has to read it)"
    ]


def test_a_setting_that_is_not_passed_on_is_reported_once() -> None:
    assert unread(None, {"timeout": 0}) == []


@pytest.mark.parametrize("name", ["isvc-mar", "kserve-torchserve"])
def test_the_shipped_runtimes_read_every_setting(name: str) -> None:
    shipped = parse_serving_runtime(yaml.safe_load((ROOT / f"manifests/runtimes/{name}.yaml").read_text()))

    assert unread(shipped, SETTINGS) == []
