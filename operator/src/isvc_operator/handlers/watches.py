"""What is watched, and what an event leads to: the cache is told, and the service it concerns is queued.

Each kind has an index handler beside its event handler. kopf holds every event back until the indexed kinds have been
listed once; so the first reconcile sees the whole cluster, and a restart applies nothing that is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import kopf

from isvc_operator.api.inference_service import KIND, PLURAL, VERSION
from isvc_operator.api.names import GROUP, LABEL_SERVICE
from isvc_operator.kube.cache import Cache, Manifest, ServiceKey

Resource = tuple[str, str, str]

SERVICES: Final[Resource] = (GROUP, VERSION, PLURAL)
# What services are made from; of the whole cluster, or of their namespace.
SHARED: Final[tuple[Resource, ...]] = (
    (GROUP, "v1alpha1", "servingruntimes"),
    (GROUP, "v1alpha1", "clusterservingruntimes"),
    (GROUP, "v1alpha1", "clusterstoragecontainers"),
)
_SHARED_KINDS: Final = ("ServingRuntime", "ClusterServingRuntime", "ClusterStorageContainer")
CHILDREN: Final[tuple[Resource, ...]] = (
    ("apps", "v1", "deployments"),
    ("", "v1", "services"),
    ("networking.k8s.io", "v1", "ingresses"),
    ("", "v1", "pods"),
)


def register(registry: kopf.OperatorRegistry, cache: Cache, enqueue: Callable[[ServiceKey], None]) -> None:
    """Watch the services, what they are made from, and their children."""
    for resource in (SERVICES, *CHILDREN, *SHARED):
        _watch(registry, resource, cache, enqueue)


def concerned(cache: Cache, body: Manifest) -> Iterable[ServiceKey]:
    """The services to look at when this object changes or goes."""
    if body["kind"] == KIND:
        # With a service, hosts may come to others or be taken from them.
        return (_own_key(body), *(ServiceKey(*key) for key in cache.hosts.take_changed()))
    if body["kind"] in _SHARED_KINDS:
        return service_keys(cache, _namespace(body))
    return () if (key := cache.service_of(body)) is None else (key,)


def select_children(settings: kopf.OperatorSettings) -> None:
    """Let the API server send only those children that carry a service's label."""
    for group, version, plural in CHILDREN:
        settings.watching.label_selectors[group, version, plural] = LABEL_SERVICE


def service_keys(cache: Cache, namespace: str = "") -> list[ServiceKey]:
    """Keys of all services, or of those in one namespace."""
    keys = (_own_key(body) for body in cache.of_kind("InferenceService"))
    return [key for key in keys if not namespace or key.namespace == namespace]


def _watch(
    registry: kopf.OperatorRegistry,
    resource: Resource,
    cache: Cache,
    enqueue: Callable[[ServiceKey], None],
) -> None:
    plural = resource[2]

    @kopf.index(*resource, id=f"cache-{plural}", registry=registry)
    async def remember(body: kopf.Body, **_: Any) -> None:
        cache.put(dict(body))

    @kopf.on.event(*resource, id=f"queue-{plural}", registry=registry)
    async def notice(body: kopf.Body, type: str | None, **_: Any) -> None:  # noqa: A002 - kopf's name
        if type == "DELETED":
            cache.remove(dict(body))
        elif cache.was_expected(body):
            return  # else a failure that is told in other words each time would be tried again at once, for ever
        for key in concerned(cache, body):
            enqueue(key)


def _own_key(body: Manifest) -> ServiceKey:
    return ServiceKey(_namespace(body), body["metadata"]["name"])


def _namespace(body: Manifest) -> str:
    namespace: str = body["metadata"].get("namespace", "")
    return namespace
