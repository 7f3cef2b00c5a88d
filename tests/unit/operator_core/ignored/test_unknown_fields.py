"""Unknown fields are found wherever the names are known, and reported with the most similar one."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.api.parsing import parse_inference_service, parse_serving_runtime
from isvc_operator.ignored.walker import unknown_fields, unknown_names


def in_predictor(**fields: Any) -> list[str]:
    return unknown_fields(parse_inference_service({"spec": {"predictor": fields}}))


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"minReplica": 1}, "spec.predictor.minReplica (did you mean minReplicas?)"),
        ({"min_replicas": 1}, "spec.predictor.min_replicas (did you mean minReplicas?)"),
        ({"nodeselector": {}}, "spec.predictor.nodeselector (did you mean nodeSelector?)"),
        ({"zzz": 1}, "spec.predictor.zzz"),
        (
            {"model": {"modelFormat": {"name": "pytorch"}, "storageURI": "pvc://a"}},
            "spec.predictor.model.storageURI (did you mean storageUri?)",
        ),
        (
            {"model": {"modelFormat": {"name": "pytorch", "vesion": "1"}}},
            "spec.predictor.model.modelFormat.vesion (did you mean version?)",
        ),
        ({"pytorch": {"resource": {}}}, "spec.predictor.pytorch.resource (did you mean resources?)"),
        ({"batcher": {"maxBatchsize": 8}}, "spec.predictor.batcher.maxBatchsize (did you mean maxBatchSize?)"),
        ({"logger": {"mode": "all", "uri": "http://a"}}, "spec.predictor.logger.uri (did you mean url?)"),
        ({"containers": [{}, {"imge": "a"}]}, "spec.predictor.containers[1].imge (did you mean image?)"),
        (
            {"initContainers": [{"comand": []}]},
            "spec.predictor.initContainers[0].comand (did you mean command?)",
        ),
        ({"storageUris": [{"uri": "a", "path": "/b"}]}, "spec.predictor.storageUris[0].path (did you mean mountPath?)"),
        ({"workerSpec": {"hostIpc": True}}, "spec.predictor.workerSpec.hostIpc (did you mean hostIPC?)"),
    ],
)
def test_a_slip_is_named_with_its_path_and_a_near_name(fields: dict[str, Any], found: str) -> None:
    assert in_predictor(**fields) == [found]


def test_a_slip_at_the_top_of_the_spec_is_named() -> None:
    body = {"spec": {"predictor": {}, "predictr": {}, "transformer": {"containers": [], "image": "a"}}}
    assert unknown_fields(parse_inference_service(body)) == [
        "spec.predictr (did you mean predictor?)",
        "spec.transformer.image",
    ]


def test_what_kubernetes_and_kserve_know_is_not_named() -> None:
    container = {"name": "a", "image": "b", "livenessProbe": {"httpGett": {}}, "resources": {"limit": {}}}
    assert in_predictor(hostPID=True, containers=[container], canaryTrafficPercent=10, paddle={"tty": True}) == []


def test_metadata_and_status_belong_to_others() -> None:
    body = {"metadata": {"managedFields": []}, "spec": {"predictor": {}}, "status": {"kopf": {}}}
    assert unknown_fields(parse_inference_service(body)) == []


def test_a_field_that_a_runtime_may_not_set_is_named() -> None:
    container = {"name": "kserve-container", "imagePullpolicy": "Always"}
    spec = {"containers": [container], "serviceAccountName": "a", "supportedModelFormats": [{"name": "a", "auto": 1}]}
    assert unknown_fields(parse_serving_runtime({"kind": "ServingRuntime", "spec": spec})) == [
        "spec.serviceAccountName",
        "spec.containers[0].imagePullpolicy (did you mean imagePullPolicy?)",
        "spec.supportedModelFormats[0].auto",
    ]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"predictr": {}}, ["spec.predictr (did you mean predictor?)"]),
        ({"predictor": {"modle": {}}}, ["spec.predictor.modle (did you mean model?)"]),
        ({"predictor": {}, "explainer": {"container": []}}, ["spec.explainer.container (did you mean containers?)"]),
        ({"predictor": {"model": {"modle": 1}}}, []),
        ({"predictor": 5}, []),
        (None, []),
    ],
)
def test_a_misspelt_component_or_model_is_found_in_a_service_that_is_not_valid(spec: Any, found: list[str]) -> None:
    assert [*unknown_names({"kind": "InferenceService", "spec": spec})] == found
