"""What users see by kubectl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.apiserver import ApiServer
from tests.support.sample_services import model, server_container, service

# Every field of the status, as it is written in Standard mode and, for the columns, as Knative would.
FULL_STATUS: dict[str, Any] = {
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "PredictorReady",
            "status": "False",
            "severity": "Info",
            "reason": "StorageFailed",
            "message": "pod a-0, container storage-initializer: the claim leeway does not exist",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        },
        {"type": "Ready", "status": "True"},
    ],
    "url": "http://shown.test.example.com",
    "address": {"url": "http://shown-predictor.test.svc.cluster.local", "name": "in", "audience": "a", "CACerts": "b"},
    "annotations": {"a": "b"},
    "components": {
        "predictor": {
            "url": "http://shown-predictor.test.example.com",
            "restUrl": "http://rest",
            "grpcUrl": "http://grpc",
            "address": {"url": "http://address"},
            "latestReadyRevision": "shown-2",
            "latestCreatedRevision": "shown-2",
            "previousRolledoutRevision": "shown-1",
            "latestRolledoutRevision": "shown-2",
            "traffic": [
                {"tag": "prev", "percent": 90, "revisionName": "shown-1", "latestRevision": False},
                {"tag": "latest", "percent": 10, "revisionName": "shown-2", "latestRevision": True, "url": "http://2"},
            ],
        }
    },
    "modelStatus": {
        "transitionStatus": "BlockedByFailedLoad",
        "states": {"activeModelState": "Loaded", "targetModelState": "FailedToLoad"},
        "lastFailureInfo": {
            "location": "a-0/storage-initializer",
            "reason": "ModelLoadFailed",
            "message": "config/config.properties is missing",
            "modelRevisionName": "shown-2",
            "time": "2026-01-01T00:00:00Z",
            "exitCode": 12,
        },
        "copies": {"failedCopies": 1, "totalCopies": 2},
    },
    "canaryStatuses": [
        {"name": "next", "ready": True, "trafficPercent": 10, "modelStatus": {"transitionStatus": "UpToDate"}}
    ],
    "deploymentMode": "Standard",
    "servingRuntimeName": "ours",
    "clusterServingRuntimeName": "kserve-torchserve",
    "ofALaterVersion": {"kept": True},
}


def create(server: ApiServer, namespace: str, manifest: dict[str, Any], status: dict[str, Any]) -> None:
    place = f"--namespace={namespace}"
    server.kubectl("create", place, "--filename=-", stdin=json.dumps(manifest))
    patch = json.dumps({"status": status})
    name = manifest["metadata"]["name"]
    server.kubectl("patch", "isvc", name, place, "--subresource=status", "--type=merge", f"--patch={patch}")


def test_the_status_keeps_every_field(apiserver: ApiServer, namespace: str) -> None:
    create(apiserver, namespace, service("shown", predictor=model()), FULL_STATUS)
    assert apiserver.get("isvc", "shown", f"--namespace={namespace}")["status"] == FULL_STATUS


def test_a_model_status_starts_with_kserves_defaults(apiserver: ApiServer, namespace: str) -> None:
    create(apiserver, namespace, service("shown", predictor=model()), {"modelStatus": {"states": {}}})
    assert apiserver.get("isvc", "shown", f"--namespace={namespace}")["status"] == {
        "observedGeneration": -1,
        "modelStatus": {"transitionStatus": "UpToDate", "states": {"activeModelState": "Pending"}},
    }


def test_get_prints_kserves_columns(apiserver: ApiServer, namespace: str) -> None:
    create(apiserver, namespace, service("shown", predictor=model()), FULL_STATUS)
    header, row = apiserver.kubectl("get", "isvc", f"--namespace={namespace}").splitlines()
    assert header.split() == [
        "NAME",
        "URL",
        "READY",
        "PREV",
        "LATEST",
        "PREVROLLEDOUTREVISION",
        "LATESTREADYREVISION",
        "AGE",
    ]
    assert row.split()[:7] == ["shown", "http://shown.test.example.com", "True", "90", "10", "shown-1", "shown-2"]


def test_get_prints_the_formats_and_containers_of_runtimes(apiserver: ApiServer, namespace: str) -> None:
    spec = {"containers": [server_container()], "supportedModelFormats": [{"name": "pytorch"}], "disabled": True}
    runtime = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": "shown"},
        "spec": spec,
    }
    apiserver.kubectl("create", f"--namespace={namespace}", "--filename=-", stdin=json.dumps(runtime))
    header, row = apiserver.kubectl("get", "servingruntimes", f"--namespace={namespace}").splitlines()
    assert header.split() == ["NAME", "DISABLED", "MODELTYPE", "CONTAINERS", "AGE"]
    assert row.split()[:4] == ["shown", "true", "pytorch", "kserve-container"]


def test_explain_tells_what_a_field_is_for(apiserver: ApiServer, tmp_path: Path) -> None:
    said = apiserver.kubectl("explain", "isvc.spec.predictor", f"--cache-dir={tmp_path}")
    assert "Serves the model. Give one of: model, one of the older framework keys, or" in said
    assert "Minimum number of pods; 1 by default. With 0, KEDA scales to zero." in said
    assert "kubectl explain pod.spec.tolerations" in said
