"""Children of the story's service as KServe's controller creates them."""

from __future__ import annotations

from typing import Any

PREDICTOR = "torchserve-predictor"


def owned_by(service: dict[str, Any]) -> dict[str, Any]:
    owner = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "name": service["metadata"]["name"],
        "uid": service["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"ownerReferences": [owner]}


def childs_metadata(service: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a child that KServe's controller has created for the predictor."""
    labels = {
        "app": f"isvc.{PREDICTOR}",
        "component": "predictor",
        "serving.kserve.io/inferenceservice": "torchserve",
    }
    return {"labels": labels, "annotations": {"of-kserve": "1"}, **owned_by(service)}


def kserves_deployment(service: dict[str, Any]) -> dict[str, Any]:
    metadata = childs_metadata(service)
    server = {
        "name": "kserve-container",
        "image": "pytorch/torchserve-kfs:0.9.0",
        "args": ["torchserve", "--start", "--model-store=/mnt/models/model-store"],
        "env": [{"name": "OF_KSERVE", "value": "1"}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "timeoutSeconds": 1, "periodSeconds": 10},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": PREDICTOR, **metadata},
        "spec": {
            "selector": {"matchLabels": {"app": f"isvc.{PREDICTOR}"}},
            "template": {"metadata": {"labels": metadata["labels"]}, "spec": {"containers": [server]}},
        },
    }


def an_autoscaler(metadata: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, **metadata},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": PREDICTOR},
            "minReplicas": 1,
            "maxReplicas": 3,
        },
    }


def an_ingress(metadata: dict[str, Any]) -> dict[str, Any]:
    backend = {"service": {"name": PREDICTOR, "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "torchserve", "annotations": {"of-kserve": "1"}, **metadata},
        "spec": {"ingressClassName": "istio", "rules": [{"host": "old.example.com", "http": {"paths": paths}}]},
    }
