"""The models: what is read, what is kept, and the message for an invalid field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.parsing import InvalidObject, parse_inference_service, parse_serving_runtime
from isvc_operator.api.serving_runtime import ClusterServingRuntime, ServingRuntime


def service(predictor: Mapping[str, Any], **fields: Any) -> InferenceService:
    return parse_inference_service({"metadata": {"name": "mnist"}, "spec": {"predictor": predictor, **fields}})


def problems(body: Mapping[str, Any]) -> tuple[str, ...]:
    with pytest.raises(InvalidObject) as caught:
        parse_inference_service(body)
    return caught.value.problems


def test_a_service_is_written_back_as_it_was_read() -> None:
    body = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "mnist", "labels": {"team": "vision"}, "annotations": {}, "finalizers": ["theirs"]},
        "spec": {
            "predictor": {
                "hostIPC": True,
                "minReplicas": 0,
                "batcher": {"maxBatchSize": 8, "window": "ours"},
                "model": {
                    "modelFormat": {"name": "pytorch"},
                    "storageUri": "pvc://leeway",
                    "env": [{"name": "EMPTY", "value": None}],
                    "resources": {"limits": {"cpu": 1, "memory": "2Gi"}},
                },
                "volumes": [{"name": "scratch", "emptyDir": {}}],
            },
            "somethingNew": [1, {"a": None}],
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "kept": {"as": "is"}},
    }
    assert parse_inference_service(body).model_dump(exclude_unset=True) == body


def test_absent_status_and_metadata_read_as_empty() -> None:
    read = parse_inference_service({"spec": {"predictor": {}}})
    assert (read.metadata.labels, read.status.conditions, read.status.observed_generation) == ({}, [], None)


def test_null_means_absent_as_in_kubectl() -> None:
    assert service({"minReplicas": None, "pytorch": None, "labels": None}).spec == service({}).spec


def test_a_name_in_snake_case_is_not_the_field() -> None:
    predictor = service({"min_replicas": 3}).spec.predictor
    assert (predictor.min_replicas, predictor.model_extra) == (None, {"min_replicas": 3})


def test_a_model_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        service({}).spec.predictor.min_replicas = 3  # type: ignore[misc]


@pytest.mark.parametrize("value", [1, "1", "500m"])
def test_a_quantity_may_be_a_number_or_text(value: int | str) -> None:
    target = {"type": "AverageValue", "averageValue": value}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    read = service({"autoScaling": {"metrics": [metric]}}).spec.predictor.auto_scaling
    assert read is not None
    assert read.as_dict() == {"metrics": [metric]}


NO_QUANTITY = "this is not a quantity; write one such as 500m or 2Gi"
BELOW_0 = "this is below 0; write a quantity such as 500m or 2Gi"


@pytest.mark.parametrize(
    ("predictor", "problem"),
    [
        (
            {"model": {"modelFormat": {"name": "a"}, "resources": {"limits": {"cpu": "abc"}}}},
            f"spec.predictor.model.resources.limits.cpu: {NO_QUANTITY}",
        ),
        (
            {"containers": [{"resources": {"requests": {"memory": "1GG"}}}]},
            f"spec.predictor.containers[0].resources.requests.memory: {NO_QUANTITY}",
        ),
        (
            {"initContainers": [{"resources": {"limits": {"cpu": -1}}}]},
            f"spec.predictor.initContainers[0].resources.limits.cpu: {BELOW_0}",
        ),
        ({"resources": {"limits": {"cpu": True}}}, f"spec.predictor.resources.limits.cpu: {NO_QUANTITY}"),
        ({"overhead": {"memory": "1\n"}}, f"spec.predictor.overhead.memory: {NO_QUANTITY}"),
        (
            {"volumes": [{"emptyDir": {"sizeLimit": "1e1.5"}}]},
            f"spec.predictor.volumes[0].emptyDir.sizeLimit: {NO_QUANTITY}",
        ),
        (
            {
                "volumes": [
                    {"ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "x"}}}}}}
                ]
            },
            "spec.predictor.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests.storage: " + NO_QUANTITY,
        ),
        (
            {"containers": [{"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"divisor": []}}}]}]},
            f"spec.predictor.containers[0].env[0].valueFrom.resourceFieldRef.divisor: {NO_QUANTITY}",
        ),
        (
            {"autoScaling": {"metrics": [{"type": "Resource", "resource": {"target": {"averageValue": "1 Gi"}}}]}},
            f"spec.predictor.autoScaling.metrics[0].resource.target.averageValue: {NO_QUANTITY}",
        ),
    ],
)
def test_what_is_not_a_quantity_is_named_with_its_path(predictor: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        service(predictor)
    assert problem in caught.value.problems


@pytest.mark.parametrize("value", [1, 0.5, "1", "0.5", ".5", "2.", "1e3", "1E-2", "1E", "1Ki", "1M", "+5n", "1u", None])
def test_what_kubernetes_reads_as_a_quantity_is_accepted(value: Any) -> None:
    resources = {"limits": {"memory": value}}
    assert service({"containers": [{"resources": resources}]}).spec.predictor.containers == [{"resources": resources}]


def test_every_field_of_the_wrong_shape_is_named_with_its_path() -> None:
    predictor = {
        "minReplicas": "1",
        "maxReplicas": -1,
        "scaleMetric": "latency",
        "model": [],
        "pytorch": {"storage": {"parameters": "s3"}},
        "containers": [{"image": "a"}, "b"],
        "autoScaling": {"metrics": [{"type": "Resource", "resource": {"name": "cpu"}}]},
        "deploymentStrategy": {"rollingUpdate": {"maxSurge": True}},
    }
    assert set(problems({"metadata": {"name": "mnist"}, "spec": {"predictor": predictor}})) == {
        "spec.predictor.minReplicas: Input should be a valid integer",
        "spec.predictor.maxReplicas: Input should be greater than or equal to 0",
        "spec.predictor.scaleMetric: Input should be 'cpu', 'memory', 'concurrency' or 'rps'",
        "spec.predictor.model: Input should be an object",
        "spec.predictor.pytorch.storage.parameters: Input should be an object",
        "spec.predictor.containers[1]: Input should be an object",
        "spec.predictor.autoScaling.metrics[0].resource.target: Field required",
        "spec.predictor.deploymentStrategy.rollingUpdate.maxSurge: Input should be an integer or a string",
    }


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, "spec: Field required"),
        ({"spec": None}, "spec: Field required"),
        ({"spec": {}}, "spec.predictor: Field required"),
        ({"spec": {"predictor": []}}, "spec.predictor: Input should be an object"),
        ({"metadata": "mnist", "spec": {"predictor": {}}}, "metadata: Input should be an object"),
    ],
)
def test_a_missing_part_is_named(body: Mapping[str, Any], problem: str) -> None:
    assert problems(body) == (problem,)


def test_the_error_names_the_object() -> None:
    with pytest.raises(InvalidObject, match=r"^InferenceService mnist is not valid: spec: Field required$"):
        parse_inference_service({"metadata": {"name": "mnist"}})


def test_a_status_written_by_another_version_does_not_hide_the_service() -> None:
    body = {"spec": {"predictor": {}}, "status": {"modelStatus": {"transitionStatus": "Teleporting"}}}
    status = parse_inference_service(body).status.model_status
    assert status is not None
    assert status.transition_status == "Teleporting"


def test_a_runtime_is_read_as_the_kind_it_is() -> None:
    spec = {"containers": [{"name": "kserve-container"}], "supportedModelFormats": [{"name": "pytorch"}]}
    body = {"metadata": {"name": "torch"}, "spec": spec}
    assert type(parse_serving_runtime(body | {"kind": "ServingRuntime"})) is ServingRuntime
    assert type(parse_serving_runtime(body | {"kind": "ClusterServingRuntime"})) is ClusterServingRuntime


def test_a_runtime_without_containers_is_not_valid() -> None:
    body = {"kind": "ClusterServingRuntime", "metadata": {"name": "torch"}, "spec": {}}
    with pytest.raises(InvalidObject, match=r"^ClusterServingRuntime torch .*spec\.containers: Field required$"):
        parse_serving_runtime(body)
