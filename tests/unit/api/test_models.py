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
