"""The effect of what a watch reports: the cache is updated, and the services that are affected are queued."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from isvc_operator.api.inference_service import KIND
from isvc_operator.api.kinds import Role, is_a, kind_named
from isvc_operator.kube.informer.cache import Cache, key_of, version_of
from isvc_operator.kube.informer.watching import LATEST, Collection, OlderState
from isvc_operator.manifests import Manifest, ServiceKey, name_of


class Affected:
    """Takes the changes of the watched objects.

    ``enqueue`` gets each service to reconcile, ``enqueue_many`` those that a change of another object concerns.
    """

    def __init__(
        self,
        cache: Cache,
        enqueue: Callable[[ServiceKey], None],
        enqueue_many: Callable[[Iterable[ServiceKey]], None],
    ) -> None:
        self._cache = cache
        self._enqueue = enqueue
        self._enqueue_many = enqueue_many

    def listed(self, collection: Collection, objects: Sequence[Manifest], version: int) -> None:
        cache, uids = self._cache, {item["metadata"]["uid"] for item in objects}
        of_kind = cache.of_kind(collection.kind.name)
        known = [item for item in of_kind if collection.namespace in ("", item["metadata"].get("namespace"))]
        for item in known:
            # One with a newer version was created, or has changed, after the list was made.
            if item["metadata"]["uid"] not in uids and version_of(item) <= version:
                if version == LATEST:
                    cache.remove(item)  # its kind is not there; when it is again, the object may be, too
                else:
                    cache.tombstone(item, version)
                self._queue(item)
        for item in objects:
            before = cache.get(key_of(item))
            if before is not None and version_of(item) < version_of(before) <= version:
                raise OlderState(
                    f"{collection.kind.name} {name_of(item)} of {collection.path} is at resource version "
                    f"{version_of(item)} and was at {version_of(before)}"
                )
            self.changed("MODIFIED" if before else "ADDED", item)

    def changed(self, change: str, body: Manifest) -> None:
        cache = self._cache
        if change == "DELETED":
            cache.tombstone(body, version_of(body))
            self._queue(body)
            return
        before = cache.get(key_of(body))
        if cache.knows(body):
            return  # it is what our own write has returned
        cache.put(body)
        if cache.was_expected(body):
            return  # a failure whose message is different each time would be retried at once, forever
        if before is not None and cache.service_of(before) != cache.service_of(body):
            self._queue(before)  # it has lost a child
        elif before is not None and self._is_others(body) and _same_generation(before, body):
            return  # the status of a budget of others changes with each of their pods
        self._queue(body)

    def _queue(self, body: Manifest) -> None:
        keys = affected_services(self._cache, body)
        if is_a(body["kind"], Role.INPUT) or self._is_others(body):
            self._enqueue_many(keys)
            return
        for key in keys:
            self._enqueue(key)

    def _is_others(self, body: Manifest) -> bool:
        return kind_named(body["kind"]).others_watched and self._cache.service_of(body) is None


def affected_services(cache: Cache, body: Manifest) -> Iterable[ServiceKey]:
    """Return the services to reconcile after a change or the deletion of this object."""
    if body["kind"] == KIND:
        # A change of a service may give its hosts to others, or take them from others.
        return (_own_key(body), *(ServiceKey(*key) for key in cache.hosts.take_changed()))
    if is_a(body["kind"], Role.INPUT):
        return service_keys(cache, key_of(body).namespace)
    if (key := cache.service_of(body)) is not None:
        return (key,)
    # A PodDisruptionBudget of the user's own may select the pods of any service.
    return service_keys(cache, key_of(body).namespace) if kind_named(body["kind"]).others_watched else ()


def service_keys(cache: Cache, namespace: str = "") -> list[ServiceKey]:
    """Return the keys of all services, or of those in one namespace."""
    keys = (_own_key(body) for body in cache.of_kind(KIND))
    return [key for key in keys if not namespace or key.namespace == namespace]


def _own_key(body: Manifest) -> ServiceKey:
    return ServiceKey(*key_of(body)[1:])


def _same_generation(before: Manifest, after: Manifest) -> bool:
    """Whether the spec has not changed."""
    return bool(before["metadata"].get("generation") == after["metadata"].get("generation"))
