"""InferenceServices and runtimes as users write them."""

from __future__ import annotations

from typing import Any

API_VERSION = "serving.kserve.io/v1beta1"


def service(name: str, **spec: Any) -> dict[str, Any]:
    """An InferenceService with this spec."""
    return {"apiVersion": API_VERSION, "kind": "InferenceService", "metadata": {"name": name}, "spec": spec}


def runtime(**spec: Any) -> dict[str, Any]:
    """A ServingRuntime that is valid but for the fields given."""
    formats = [{"name": "abacus", "version": "1", "autoSelect": True, "priority": 1}]
    valid = {"supportedModelFormats": formats, "containers": [server_container()]}
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": "abacus"},
        "spec": valid | spec,
    }


def model(**fields: Any) -> dict[str, Any]:
    """A predictor with a model that is valid but for the fields given."""
    return {"model": {"modelFormat": {"name": "pytorch"}, "storageUri": "pvc://leeway"} | fields}


def server_container(**fields: Any) -> dict[str, Any]:
    return {"name": "kserve-container", "image": "registry.example.com/server:1"} | fields


OLD_FIELD_NAMES = service(
    "torchserve-mnist",
    predictor={
        "pytorch": {
            "storageUri": "gs://kfserving-examples/models/torchserve/image_classifier",
            "resources": {"limits": {"cpu": 4, "memory": "8Gi", "nvidia.com/gpu": "1"}},
            "args": ["--disable-token-auth"],
        }
    },
)

CUSTOM_TRANSFORMER = service(
    "with-transformer",
    predictor=model(protocolVersion="v1", resources={"requests": {"cpu": "100m"}}),
    transformer={
        "minReplicas": 1,
        "containers": [
            {
                "image": "registry.example.com/team/image-transformer:v1",
                "name": "kserve-container",
                "command": ["python", "-m", "transformer"],
                "args": ["--model_name", "mnist"],
                "env": [{"name": "GREETING", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "hello"}}}],
            }
        ],
    },
)

OWN_CONTAINER_WITHOUT_A_NAME = service(
    "own-server",
    predictor={
        "timeout": 60,
        "containers": [{"image": "registry.example.com/server:1", "ports": [{"containerPort": 9000}]}],
        "serviceAccountName": "reader",
        "tolerations": [{"operator": "Exists"}],
    },
)

EVERYTHING_AT_ONCE = service(
    "everything",
    predictor={
        "name": "main",
        "minReplicas": 1,
        "maxReplicas": 3,
        "scaleMetric": "cpu",
        "scaleTarget": 60,
        "scaleMetricType": "Utilization",
        "autoScaling": {
            "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Value", "value": 50}}},
                {
                    "type": "External",
                    "external": {
                        "metric": {"backend": "prometheus", "serverAddress": "http://prometheus", "query": "up"},
                        "authenticationRef": {"authenticationRef": {"name": "login"}, "authModes": "bearer"},
                        "target": {"type": "Value", "value": "100m"},
                    },
                },
            ],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 10}},
        },
        "containerConcurrency": 0,
        "canaryTrafficPercent": 20,
        "logger": {"mode": "all", "url": "http://sink"},
        "batcher": {"maxBatchSize": 32, "maxLatency": 50, "timeout": 60},
        "labels": {"team": "vision"},
        "annotations": {"note": "blue"},
        "deploymentStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
        "nodeSelector": {"disk": "ssd"},
        "affinity": {"nodeAffinity": {}},
        "volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory"}}],
        "containers": [{"name": "beside", "image": "registry.example.com/beside:1"}],
        **model(
            modelFormat={"name": "pytorch", "version": "1"},
            runtime="kserve-torchserve",
            runtimeVersion="0.12.0-gpu",
            protocolVersion="v1",
            readinessProbe={"httpGet": {"path": "/v2/health/ready", "port": "http"}, "periodSeconds": 1},
            confidential={"enabled": False},
        ),
    },
    canary=[{"predictor": {"name": "next"} | model(), "trafficPercent": 10}],
    explainer={"containers": [server_container()]},
)

ACCEPTED = (OLD_FIELD_NAMES, CUSTOM_TRANSFORMER, OWN_CONTAINER_WITHOUT_A_NAME, EVERYTHING_AT_ONCE)
