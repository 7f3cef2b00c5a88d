"""The objects that the watches report, without what nobody reads, and the services that each change concerns."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from isvc.limits import SEEN_EVENTS, UNPLACED_EVENTS
from isvc_operator.api import serving_runtime
from isvc_operator.api.inference_service import KIND
from isvc_operator.api.kinds import Role
from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.kube.informer.cache import ObjectKey, key_of, version_of
from isvc_operator.kube.informer.watching import Collection
from isvc_operator.manifests import Event, Manifest, ServiceKey, labels_of

_EVENT: Final = "Event"
_OF_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_OF_EVENT: Final = (
    "kind", "involvedObject", "type", "reason", "message", "count", "series", "firstTimestamp", "lastTimestamp",
    "eventTime",
)  # fmt: skip
_OF_POD: Final = ("nodeName", "volumes")
_OF_MANAGER: Final = ("manager", "operation", "subresource", "time")


def kept(manifest: Manifest) -> Manifest:
    """Return what is kept of an object: of who changed it only who and when, of a pod's spec the node and volumes."""
    metadata = manifest["metadata"]
    if manifest["kind"] == _EVENT:
        own = {name: metadata[name] for name in _OF_METADATA if name in metadata}
        return {"metadata": own, **{name: manifest[name] for name in _OF_EVENT if name in manifest}}
    metadata = {name: value for name, value in metadata.items() if name != "managedFields"}
    if manifest["kind"] == KIND:
        entries = manifest["metadata"].get("managedFields") or ()
        metadata["managedFields"] = [{name: item[name] for name in _OF_MANAGER if name in item} for item in entries]
    if manifest["kind"] != "Pod":
        return {**manifest, "metadata": metadata}
    spec = manifest.get("spec") or {}
    return {**manifest, "metadata": metadata, "spec": {name: spec[name] for name in _OF_POD if name in spec}}


_Subject = tuple[str, str]  # the namespace and the uid of an object


class WatchedObjects:
    """Takes what watches report; ``report`` gets the services that a change concerns."""

    def __init__(self, report: Callable[[Iterable[ServiceKey]], None]) -> None:
        self._report = report
        self._by_kind: defaultdict[str, dict[ObjectKey, Manifest]] = defaultdict(dict)
        self._of_service: defaultdict[ServiceKey, set[ObjectKey]] = defaultdict(set)
        self._services: dict[_Subject, ServiceKey] = {}  # by a service or a pod
        self._events: defaultdict[_Subject, deque[Event]] = defaultdict(lambda: deque(maxlen=SEEN_EVENTS))
        # The Events of objects that are not known: of pods of others, or of those whose own watch is later.
        self._unplaced: OrderedDict[_Subject, list[Event]] = OrderedDict()

    def listed(self, collection: Collection, objects: Sequence[Manifest], version: int) -> None:
        """Take all objects of the collection as they were at a resource version."""
        if collection.kind.role is not Role.EVENT:  # one that is gone has expired, and is still true
            uids = {item["metadata"]["uid"] for item in objects}
            for item in [*self._in(collection)]:
                if item["metadata"]["uid"] not in uids and version_of(item) <= version:
                    self._remove(item)
        for item in objects:
            self.changed("MODIFIED", item)

    def changed(self, change: str, body: Manifest) -> None:
        """Take an object that was ``ADDED``, ``MODIFIED`` or ``DELETED``."""
        if body["kind"] == _EVENT:
            if change != "DELETED":
                self._put_event(kept(body))
        elif change == "DELETED":
            self._remove(body)
        else:
            self._put(kept(body))

    def kept_of_list(self, manifest: Manifest) -> Manifest | None:
        """Return what is kept of an object of a list; nothing of an Event of an object that is not known.

        A cluster has very many of them, and those of objects that are created later come by the watch.
        """
        if manifest["kind"] == _EVENT and _subject_of(manifest) not in self._services:
            return None
        return kept(manifest)

    def services(self) -> list[ServiceKey]:
        """Return the services that there are, in the order of their names."""
        return sorted(ServiceKey(key.namespace, key.name) for key in self._by_kind[KIND])

    def service(self, key: ServiceKey) -> Manifest | None:
        """Return a service, if it exists."""
        return self._by_kind[KIND].get(ObjectKey(KIND, *key))

    def children(self, key: ServiceKey) -> list[Manifest]:
        """Return the children of a service."""
        return [item for item in self._labelled(key) if item["kind"] != "Pod"]

    def pods(self, key: ServiceKey) -> list[Manifest]:
        """Return the pods of a service."""
        return [item for item in self._labelled(key) if item["kind"] == "Pod"]

    def events(self, key: ServiceKey) -> list[Event]:
        """Return the Events of a service and of its pods."""
        service = self.service(key)
        owners = [*([service] if service else ()), *self.pods(key)]
        return [event for owner in owners for event in self._events.get(_subject(owner), ())]

    def runtimes(self, namespace: str) -> list[Manifest]:
        """Return the runtimes that the services of a namespace may use."""
        found = (item for kind in (serving_runtime.KIND, serving_runtime.CLUSTER_KIND) for item in self._of_kind(kind))
        return [item for item in found if item["metadata"].get("namespace", namespace) == namespace]

    def _of_kind(self, kind: str) -> Iterable[Manifest]:
        return self._by_kind[kind].values()

    def _labelled(self, key: ServiceKey) -> Iterator[Manifest]:
        return (self._by_kind[item.kind][item] for item in sorted(self._of_service.get(key, ())))

    def _in(self, collection: Collection) -> Iterator[Manifest]:
        place = collection.namespace
        of_kind = self._of_kind(collection.kind.name)
        return (item for item in of_kind if place in ("", item["metadata"].get("namespace", "")))

    def _put(self, body: Manifest) -> None:
        key, uid = key_of(body), body["metadata"]["uid"]
        known = self._by_kind[key.kind].get(key)
        if known is not None and version_of(body) < version_of(known):
            return
        if known is not None and known["metadata"]["uid"] != uid:
            self._remove(known)
        before = _service_of(known) if known else None
        self._by_kind[key.kind][key] = body
        service = _service_of(body)
        if before and before != service:
            self._of_service[before].discard(key)
            self._report([before])
        if service:
            if body["kind"] != KIND:
                self._of_service[service].add(key)
            subject = _subject(body)
            self._services[subject] = service
            self._events[subject].extend(self._unplaced.pop(subject, ()))
        self._report([service] if service else self._all_in(body))

    def _remove(self, body: Manifest) -> None:
        key, uid = key_of(body), body["metadata"]["uid"]
        known = self._by_kind[key.kind].get(key)
        if known is None or known["metadata"]["uid"] != uid:
            return
        del self._by_kind[key.kind][key]
        service = _service_of(known)
        if service is None:
            self._report(self._all_in(known))
            return
        self._services.pop(_subject(known), None)
        self._events.pop(_subject(known), None)
        self._of_service[service].discard(key)
        if not self._of_service[service]:
            del self._of_service[service]
        self._report([service])

    def _all_in(self, body: Manifest) -> list[ServiceKey]:
        """Return the services that a runtime concerns."""
        namespace = body["metadata"].get("namespace", "")
        return [key for key in self.services() if namespace in ("", key.namespace)]

    def _put_event(self, event: Event) -> None:
        subject = _subject_of(event)
        if (service := self._services.get(subject)) is None:
            self._unplaced.setdefault(subject, []).append(event)
            self._unplaced.move_to_end(subject)
            del self._unplaced[subject][:-SEEN_EVENTS]
            while len(self._unplaced) > UNPLACED_EVENTS:
                self._unplaced.popitem(last=False)
            return
        known = self._events[subject]
        for index, other in enumerate(known):
            if other["metadata"].get("uid") == event["metadata"].get("uid"):
                known[index] = event
                break
        else:
            known.append(event)
        self._report([service])


def _subject(body: Manifest) -> _Subject:
    return body["metadata"].get("namespace", ""), body["metadata"]["uid"]


def _subject_of(event: Event) -> _Subject:
    """Return what an Event is about. Whoever may write Events in one namespace can write any uid into them."""
    return event["metadata"].get("namespace", ""), event["involvedObject"].get("uid", "")


def _service_of(body: Manifest) -> ServiceKey | None:
    namespace = body["metadata"].get("namespace", "")
    name = body["metadata"]["name"] if body["kind"] == KIND else labels_of(body).get(LABEL_SERVICE)
    return ServiceKey(namespace, name) if name else None
