"""Status on a real API server, with the tests in the roles of the Deployment controller and the kubelet."""

from __future__ import annotations

import json
from typing import Any

from tests.support.fake_pods import make_pod, set_initializer
from tests.support.namespace import Namespace
from tests.support.waiting import eventually

PREDICTOR = "torchserve-predictor"


def test_a_finished_rollout_is_ready_with_its_addresses(running_operator: None, namespace: Namespace) -> None:
    namespace.apply_story()
    namespace.play_finished_rollout()
    namespace.wait_for_condition("Ready", "True")
    service = namespace.find("inferenceservice", "torchserve")
    assert service is not None
    status = service["status"]
    conditions = [
        {name: value for name, value in item.items() if name != "lastTransitionTime"} for item in status["conditions"]
    ]
    assert conditions == [
        {"type": "IngressReady", "status": "True"},
        {"type": "PredictorReady", "status": "True", "reason": "NewReplicaSetAvailable"},
        {"type": "Progressing", "status": "True", "severity": "Info", "reason": "NewReplicaSetAvailable"},
        {"type": "Ready", "status": "True"},
        {"type": "Stopped", "status": "False", "severity": "Info"},
    ]
    del status["conditions"]
    host = f"{namespace.name}.example.com"
    assert status == {
        "observedGeneration": service["metadata"]["generation"],
        "url": f"http://torchserve.{host}",
        "address": {"url": f"http://{PREDICTOR}.{namespace.name}.svc.cluster.local"},
        "components": {"predictor": {"url": f"http://{PREDICTOR}.{host}"}},
        "clusterServingRuntimeName": "kserve-torchserve",
        "deploymentMode": "Standard",
        "modelStatus": {
            "transitionStatus": "UpToDate",
            "states": {"activeModelState": "Loaded", "targetModelState": "Loaded"},
            "copies": {"failedCopies": 0, "totalCopies": 0},
        },
    }


def test_a_crashed_container_is_named_with_its_exit_code_and_message(
    running_operator: None, namespace: Namespace
) -> None:
    namespace.apply_story()
    namespace.wait_for("deployment", PREDICTOR)
    make_pod(namespace)
    ended = {"exitCode": 12, "reason": "Error", "message": "no config.properties; add one", "containerID": "c://1"}
    set_initializer(namespace, {"terminated": ended})
    condition = namespace.wait_for_condition("Ready", "False", "StorageInitializerFailed")
    assert condition["message"] == (
        "pod torchserve-predictor-1, container storage-initializer ended with exit code 12: "
        "no config.properties; add one"
    )
    service = namespace.find("inferenceservice", "torchserve") or {}
    failure = service["status"]["modelStatus"]["lastFailureInfo"]
    assert (failure["reason"], failure["exitCode"]) == ("ModelLoadFailed", 12)
    events = eventually(lambda: warnings(namespace), "a Warning is recorded")
    assert [(event["reason"], event["message"]) for event in events] == [
        ("StorageInitializerFailed", condition["message"])
    ]


def test_a_missing_runtime_is_reported_and_creating_one_repairs_the_service(
    running_operator: None, namespace: Namespace
) -> None:
    model = {"modelFormat": {"name": "caffe"}, "storageUri": "pvc://leeway"}
    namespace.apply_story(model=model)
    condition = namespace.wait_for_condition("Ready", "False", "NoSupportingRuntime")
    assert "model format 'caffe'" in condition["message"]
    assert "'pytorch' (kserve-torchserve)" in condition["message"]
    runtime = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": "caffe", "namespace": namespace.name},
        "spec": {
            "supportedModelFormats": [{"name": "caffe", "autoSelect": True}],
            "containers": [{"name": "kserve-container", "image": "localhost/caffe:1"}],
        },
    }
    namespace.apply(runtime)
    namespace.wait_for("deployment", PREDICTOR)
    namespace.wait_for_condition("Ready", "Unknown")


def test_an_unknown_field_is_accepted_and_named(running_operator: None, namespace: Namespace) -> None:
    model = {"modelFormat": {"name": "pytorch"}, "storageUri": "pvc://leeway", "storageURI": "pvc://other"}
    beside = [{"name": "logs", "image": "localhost/logs:1", "resource": {"limits": {"cpu": "1"}}}]
    namespace.apply_story(model=model, batcher={"maxBatchSize": 0}, containers=beside)
    condition = namespace.wait_for_condition("FieldsIgnored", "True", "FieldsIgnored")
    assert "spec.predictor.model.storageURI" in condition["message"]
    assert "spec.predictor.batcher.maxBatchSize: 0" in condition["message"]
    assert "spec.predictor.containers[0].resource (did you mean resources?)" in condition["message"]
    namespace.wait_for("deployment", PREDICTOR)


def test_an_unknown_field_inside_of_a_containers_field_is_reported_with_its_path(
    running_operator: None, namespace: Namespace
) -> None:
    model = {"modelFormat": {"name": "pytorch"}, "storageUri": "pvc://leeway"}
    in_service = " (in the InferenceService: spec.predictor.model.resources.limit)"
    namespace.apply_story(model={**model, "resources": {"limit": {"cpu": "1"}}})
    condition = namespace.wait_for_condition("Ready", "False", "ReconcileFailed")
    assert condition["message"].endswith(
        f'unknown field "spec.template.spec.containers[0].resources.limit"{in_service}'
    )

    namespace.apply_story(model={**model, "resources": {"limits": {"cpu": "1"}}})
    namespace.wait_for_condition("Ready", "Unknown")

    namespace.apply_story(model={**model, "resources": {"limit": {"cpu": "1"}}})
    condition = namespace.wait_for_condition("Ready", "False", "ReconcileFailed")
    assert condition["message"].endswith(f"resources.limit: field not declared in schema{in_service}")


def warnings(namespace: Namespace) -> list[dict[str, Any]]:
    events = json.loads(namespace.kubectl("get", "events", "--output=json"))["items"]
    return [
        event
        for event in events
        if event["type"] == "Warning" and event["involvedObject"]["kind"] == "InferenceService"
    ]
