"""The services that are measured: a runtime of somebody's own, and a model on a claim."""

from __future__ import annotations

from typing import Any

from tests.support.apiserver import ApiServer

IMAGE = "registry.example.com/server"
SERVER = "kserve-container"
CLAIM = "models"
RUNTIME = "factor-server"
_GROUP = "serving.kserve.io"
RUNTIMES = f"/apis/{_GROUP}/v1alpha1/clusterservingruntimes"


def runtime(tag: str = "1") -> dict[str, Any]:
    """The runtime of all services; its image has this tag."""
    container = {
        "name": SERVER,
        "image": f"{IMAGE}:{tag}",
        "args": ["--model_dir=/mnt/models", "--http_port=8080"],
        "resources": {"requests": {"cpu": "5m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
    }
    return {
        "apiVersion": f"{_GROUP}/v1alpha1",
        "kind": "ClusterServingRuntime",
        "metadata": {"name": RUNTIME},
        "spec": {
            "supportedModelFormats": [{"name": "factor", "version": "1", "autoSelect": True}],
            "protocolVersions": ["v1"],
            "containers": [container],
        },
    }


def service(name: str, namespace: str, **variables: str) -> dict[str, Any]:
    """A service whose server gets these environment variables."""
    # With the runtime's name, so that no program has to look for one.
    model: dict[str, Any] = {
        "modelFormat": {"name": "factor"}, "protocolVersion": "v1", "runtime": RUNTIME,
        "storageUri": f"pvc://{CLAIM}/factor",
    }  # fmt: skip
    if variables:
        model["env"] = [{"name": key, "value": value} for key, value in variables.items()]
    return {
        "apiVersion": f"{_GROUP}/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"predictor": {"model": model}},
    }


def create_claim(server: ApiServer, namespace: str) -> None:
    """Create the claim of a namespace's services; it is bound, as its controller would do it."""
    size = {"storage": "1Gi"}
    volume = {
        "accessModes": ["ReadWriteMany"], "capacity": size, "hostPath": {"path": "/models"},
        "claimRef": {"namespace": namespace, "name": CLAIM},
    }  # fmt: skip
    claim = {
        "accessModes": ["ReadWriteMany"], "resources": {"requests": size}, "storageClassName": "",
        "volumeName": namespace,
    }  # fmt: skip
    server.send("POST", "/api/v1/persistentvolumes", {"metadata": {"name": namespace}, "spec": volume})
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    metadata = {"name": CLAIM, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    server.send("POST", claims, {"metadata": metadata, "spec": claim})
    status = {"status": {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": size}}
    server.send("PATCH", f"{claims}/{CLAIM}/status", status, content="application/merge-patch+json")


def services_path(namespace: str = "") -> str:
    """The path of the services of a namespace, or of all."""
    return f"/apis/{_GROUP}/v1beta1" + (f"/namespaces/{namespace}" if namespace else "") + "/inferenceservices"


def has_condition(item: dict[str, Any], kind: str, status: str = "True") -> bool:
    """Whether a condition of the service has this status."""
    conditions = item.get("status", {}).get("conditions", ())
    return any(found["type"] == kind and found["status"] == status for found in conditions)


def is_ready(item: dict[str, Any]) -> bool:
    """Whether the status says so, and is that of the last spec."""
    observed = item.get("status", {}).get("observedGeneration")
    return has_condition(item, "Ready") and observed == item["metadata"]["generation"]


def failed_status() -> dict[str, Any]:
    """The status of a pod whose server has ended with an error, and is about to be started again."""
    ended = {"exitCode": 1, "reason": "Error", "message": "RuntimeError: no such layer"}
    container = {
        "name": SERVER,
        "image": f"{IMAGE}:1",
        "imageID": "",
        "ready": False,
        "restartCount": 1,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}},
        "lastState": {"terminated": ended},
    }
    conditions = [{"type": name, "status": "False"} for name in ("Ready", "ContainersReady")]
    return {"status": {"phase": "Running", "containerStatuses": [container], "conditions": conditions}}
