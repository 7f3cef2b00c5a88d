"""The services that are changed over: own containers, claims, S3, transformers, autoscalers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.bench.migration.kserve import SERVER

NAMESPACES = ("bank", "shop")
FACTOR = 3  # of the models in claims and buckets; an own container has none, and multiplies by two
_RESOURCES = {"requests": {"cpu": "5m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}}


def services(namespace: str, count: int) -> Iterator[dict[str, Any]]:
    """That many services, in turns of each sort."""
    sorts = (own_container, from_claim, from_s3, scaled, with_transformer)
    for number in range(count):
        spec = sorts[number % len(sorts)]()
        yield {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {
                "name": f"{sorts[number % len(sorts)].__name__.replace('_', '-')}-{number}",
                "namespace": namespace,
            },
            "spec": spec,
        }


def own_container() -> dict[str, Any]:
    return {"predictor": {"containers": [_container()]}}


def from_claim() -> dict[str, Any]:
    return {"predictor": {"model": {"modelFormat": {"name": "factor"}, "storageUri": "pvc://models/factor"}}}


def from_s3() -> dict[str, Any]:
    model = {"modelFormat": {"name": "factor"}, "storageUri": "s3://models/factor"}
    return {"predictor": {"serviceAccountName": "reads-s3", "model": model}}


def scaled() -> dict[str, Any]:
    return {"predictor": {"minReplicas": 2, "maxReplicas": 4, "containers": [_container()]}}


def with_transformer() -> dict[str, Any]:
    return {"predictor": {"containers": [_container()]}, "transformer": {"containers": [_container()]}}


def _container() -> dict[str, Any]:
    return {"name": "kserve-container", "image": SERVER, "ports": [{"containerPort": 8080}], "resources": _RESOURCES}
