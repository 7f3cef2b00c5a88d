"""Everything that one reconcile reads, taken from the watch cache at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isvc_operator.api.errors import InvalidObject
from isvc_operator.api.serving_runtime import ServingRuntime, parse_serving_runtime
from isvc_operator.kube.cache import Cache, Manifest, ObjectKey, ServiceKey
from isvc_operator.resolve.runtime import Runtimes


@dataclass(frozen=True)
class Gathered:
    """A service's own body, the runtimes it may use, and what carries its label."""

    body: Mapping[str, Any]
    runtimes: Runtimes
    children: tuple[Manifest, ...]
    pods: tuple[Manifest, ...]


def gather(cache: Cache, key: ServiceKey) -> Gathered | None:
    """What is known about the service; None where it is gone or on its way out."""
    body = cache.get(ObjectKey("InferenceService", key.namespace, key.name))
    if body is None or body["metadata"].get("deletionTimestamp"):
        return None
    labelled = tuple(cache.of_service(key))
    return Gathered(
        body=body,
        runtimes=_runtimes(cache, key.namespace),
        children=tuple(item for item in labelled if item["kind"] != "Pod"),
        pods=tuple(item for item in labelled if item["kind"] == "Pod"),
    )


def _runtimes(cache: Cache, namespace: str) -> Runtimes:
    namespaced = [item for item in cache.of_kind("ServingRuntime") if item["metadata"]["namespace"] == namespace]
    return Runtimes(_parsed(namespaced), _parsed(list(cache.of_kind("ClusterServingRuntime"))))


def _parsed(bodies: list[Manifest]) -> tuple[ServingRuntime, ...]:
    """The runtimes that can be read; one that cannot must not stop the services that do not use it."""
    runtimes = []
    for body in bodies:
        try:
            runtimes.append(parse_serving_runtime(body))
        except InvalidObject:
            continue
    return tuple(runtimes)
