"""The watches: each event updates the cache and queues the services that it affects.

Each kind has an index handler in addition to its event handler. kopf delays all events until the indexed kinds were
listed once. So the first reconcile sees the whole cluster, and a restart applies nothing that exists already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import kopf

from isvc_operator.api.inference_service import KIND
from isvc_operator.api.kinds import KINDS, ResourceKind, Role, is_a, kind_named
from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.kube.cache import Cache, ServiceKey
from isvc_operator.manifests import Manifest, name_of


def register(
    registry: kopf.OperatorRegistry,
    cache: Cache,
    enqueue: Callable[[ServiceKey], None],
    kinds: Iterable[ResourceKind],
) -> None:
    """Watch these kinds. The watch of an optional kind starts when its CRD is there."""
    logging.getLogger("kopf._core.reactor.observation").addFilter(is_needed)
    for kind in kinds:
        _watch(registry, kind, cache=cache, enqueue=enqueue)


def is_needed(record: logging.LogRecord) -> bool:
    """Whether a line of kopf's log is needed. It warns of kinds without a CRD, also of optional ones."""
    text = record.getMessage()
    optional = sum(f"any_name={kind.plural!r}" in text for kind in KINDS if kind.optional)
    return not text.startswith("Unresolved resources") or text.count("Selector(") > optional


def select_by_label(settings: kopf.OperatorSettings) -> None:
    """Watch only children and pods with a service's label."""
    for kind in KINDS:
        if kind.selected_by_label:
            settings.watching.label_selectors[kind.group, kind.version, kind.plural] = LABEL_SERVICE


def affected_services(cache: Cache, body: Manifest) -> Iterable[ServiceKey]:
    """Return the services to reconcile after a change or the deletion of this object."""
    if body["kind"] == KIND:
        # A change of a service may give its hosts to others, or take them from others.
        return (_own_key(body), *(ServiceKey(*key) for key in cache.hosts.take_changed()))
    if is_a(body["kind"], Role.INPUT):
        return service_keys(cache, _namespace(body))
    if (key := cache.service_of(body)) is not None:
        return (key,)
    # A PodDisruptionBudget of the user's own may select the pods of any service.
    return service_keys(cache, _namespace(body)) if kind_named(body["kind"]).others_watched else ()


def service_keys(cache: Cache, namespace: str = "") -> list[ServiceKey]:
    """Return the keys of all services, or of those in one namespace."""
    keys = (_own_key(body) for body in cache.of_kind(KIND))
    return [key for key in keys if not namespace or key.namespace == namespace]


def _watch(
    registry: kopf.OperatorRegistry, kind: ResourceKind, *, cache: Cache, enqueue: Callable[[ServiceKey], None]
) -> None:
    resource = (kind.group, kind.version, kind.plural)

    @kopf.index(*resource, id=f"cache-{kind.plural}", registry=registry)
    async def store(body: kopf.Body, **_: Any) -> None:
        cache.put(dict(body))

    @kopf.on.event(*resource, id=f"queue-{kind.plural}", registry=registry)
    async def queue(body: kopf.Body, type: str | None, **_: Any) -> None:  # noqa: A002 - kopf's name
        if type == "DELETED":
            cache.remove(dict(body))
        elif cache.was_expected(body):
            return  # a failure whose message is different each time would be retried at once, forever
        elif type == "MODIFIED" and kind.others_watched and cache.service_of(body) is None:
            return  # the status of a budget of others changes with each of their pods
        for key in affected_services(cache, body):
            enqueue(key)


def _own_key(body: Manifest) -> ServiceKey:
    return ServiceKey(_namespace(body), name_of(body))


def _namespace(body: Manifest) -> str:
    namespace: str = body["metadata"].get("namespace", "")
    return namespace
