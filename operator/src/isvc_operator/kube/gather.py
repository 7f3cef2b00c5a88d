"""Everything that one reconcile reads, taken from the watch cache at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from isvc_operator.api.errors import InvalidObject
from isvc_operator.api.serving_runtime import parse_serving_runtime
from isvc_operator.api.storage_container import ClusterStorageContainer, parse_storage_container
from isvc_operator.kube.adoption import controller_of
from isvc_operator.kube.cache import Cache, Manifest, ObjectKey, ServiceKey
from isvc_operator.resolve.runtime import Runtimes

T = TypeVar("T")


@dataclass(frozen=True)
class Gathered:
    """A service's own body, the runtimes and storage containers it may use, and what carries its label.

    ``taken_hosts`` are those of its hosts that another service has, which is given as ``namespace/name``.
    """

    body: Mapping[str, Any]
    runtimes: Runtimes
    storage_containers: tuple[ClusterStorageContainer, ...]
    children: tuple[Manifest, ...]
    pods: tuple[Manifest, ...]
    taken_hosts: Mapping[str, str] = field(default_factory=dict)

    @property
    def headless(self) -> bool | None:
        """Whether the service's Services are headless, which cannot change; None where it has none yet."""
        uid = self.body["metadata"]["uid"]
        own = [item for item in self.children if item["kind"] == "Service" and controller_of(item).get("uid") == uid]
        return all(item["spec"].get("clusterIP") == "None" for item in own) if own else None


def gather(cache: Cache, key: ServiceKey) -> Gathered | None:
    """What is known about the service; None where it is gone or on its way out."""
    body = cache.get(ObjectKey("InferenceService", key.namespace, key.name))
    if body is None or body["metadata"].get("deletionTimestamp"):
        return None
    labelled = tuple(cache.of_service(key))
    return Gathered(
        body=body,
        runtimes=_runtimes(cache, key.namespace),
        storage_containers=_parsed(cache, cache.of_kind("ClusterStorageContainer"), parse_storage_container)[0],
        children=tuple(item for item in labelled if item["kind"] != "Pod"),
        pods=tuple(item for item in labelled if item["kind"] == "Pod"),
        taken_hosts=cache.hosts.taken_from(*key),
    )


def _runtimes(cache: Cache, namespace: str) -> Runtimes:
    own = (item for item in cache.of_kind("ServingRuntime") if item["metadata"]["namespace"] == namespace)
    namespaced, broken_here = _parsed(cache, own, parse_serving_runtime)
    cluster, broken = _parsed(cache, cache.of_kind("ClusterServingRuntime"), parse_serving_runtime)
    return Runtimes(namespaced, cluster, unreadable={**broken, **broken_here})


def _parsed(
    cache: Cache, bodies: Iterable[Manifest], parse: Callable[[Manifest], T]
) -> tuple[tuple[T, ...], dict[str, str]]:
    """Those that can be read, and what is wrong with the others: they must not stop services that do not use them."""

    def attempt(body: Manifest) -> T | InvalidObject:
        try:
            return parse(body)
        except InvalidObject as error:
            return error

    found, broken = [], {}
    for body in bodies:
        outcome = cache.read(body, attempt)
        if isinstance(outcome, InvalidObject):
            broken[body["metadata"]["name"]] = str(outcome)
        else:
            found.append(outcome)
    return tuple(found), broken
