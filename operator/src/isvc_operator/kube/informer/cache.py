"""The watched objects, without the fields that no reconcile reads.

The handlers fill it; ``gather`` reads it instead of sending requests to the API server. The response to our own write
is put here at once, so that the next reconcile sees it; an older event that arrives later is ignored by its resource
version.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from pydantic_core import to_json

from isvc_operator.api.inference_service import KIND
from isvc_operator.api.names import ANNOTATION_RENDERED, FIELD_MANAGER, LABEL_SERVICE
from isvc_operator.api.parsing import OMITTED, excess_of_object
from isvc_operator.config import IngressConfig
from isvc_operator.limits import LARGE_BYTES, NAMESPACE_BYTES
from isvc_operator.manifests import LAST_APPLIED, Manifest, ServiceKey, annotations_of, labels_of, updated_by
from isvc_operator.resolve.hosts import HostClaims

T = TypeVar("T")

TOMBSTONES: Final = 1000  # of the objects that were deleted last
READ: Final = 512  # objects of which the last reading is kept
PART_BYTES: Final = 4096  # of a field of the metadata that an outline has
_OF_POD: Final = ("nodeName", "volumes")  # what is read of a pod's spec
_UPDATED_BY_US: Final = ({"manager": FIELD_MANAGER, "operation": "Update"},)


class ObjectKey(NamedTuple):
    """The identity of an object in the cache; ``namespace`` is empty for cluster-scoped kinds."""

    kind: str
    namespace: str
    name: str


def key_of(manifest: Manifest) -> ObjectKey:
    metadata = manifest["metadata"]
    return ObjectKey(manifest["kind"], metadata.get("namespace", ""), metadata["name"])


class Cache:
    """Objects by key, by kind and by service; ``hosts`` is the index of the hosts that services request.

    ``large`` are the objects that count among the large ones of their namespace, with their bytes.
    """

    def __init__(self) -> None:
        self.hosts = HostClaims(IngressConfig())
        self._objects: dict[ObjectKey, Manifest] = {}
        self._by_kind: defaultdict[str, dict[ObjectKey, None]] = defaultdict(dict)
        self._unlabelled: defaultdict[tuple[str, str], dict[ObjectKey, None]] = defaultdict(dict)
        self._by_service: defaultdict[ServiceKey, dict[ObjectKey, None]] = defaultdict(dict)
        self._tombstones: OrderedDict[str, int] = OrderedDict()  # the resource version by uid
        self._expected: dict[ObjectKey, Manifest] = {}
        self._read: OrderedDict[ObjectKey, tuple[Manifest, Any]] = OrderedDict()
        self.large: dict[ObjectKey, int] = {}
        self._refused: dict[ObjectKey, int] = {}  # bytes of objects for which their namespace had no room

    def put(self, manifest: Manifest) -> None:
        """Store the object, unless a newer version of it is known, or it has been deleted since."""
        key = key_of(manifest)
        known = self._objects.get(key)
        deleted = self._tombstones.get(manifest["metadata"].get("uid", ""))
        if deleted is not None and version_of(manifest) <= deleted:
            return
        if known is not None and version_of(manifest) < version_of(known):
            return
        self._drop(key)
        kept = trimmed(manifest)
        size = len(to_json(kept))
        self._objects[key] = kept if size <= LARGE_BYTES else self._large_object(key, kept, size)
        self._by_kind[key.kind][key] = None
        if service := self.service_of(manifest):
            self._by_service[service][key] = None
        else:
            self._unlabelled[key.kind, key.namespace][key] = None
        if key.kind == KIND:
            self.hosts.put(manifest)

    def remove(self, manifest: Manifest) -> None:
        """Remove the object, unless another one has its name by now."""
        key = key_of(manifest)
        known = self._objects.get(key)
        if known is not None and known["metadata"].get("uid") == manifest["metadata"].get("uid"):
            self._drop(key)
            self._expected.pop(key, None)
            if key.kind == KIND:
                self.hosts.remove(manifest)

    def knows(self, manifest: Manifest) -> bool:
        """Whether this version of the object, or a newer one, is in the cache."""
        known = self._objects.get(key_of(manifest))
        return known is not None and version_of(manifest) <= version_of(known)

    def tombstone(self, manifest: Manifest, version: int) -> None:
        """Remove an object that was deleted, or that left what is watched, at a resource version.

        The response to a write that came before may be on its way. What is newer is back: its label was restored.
        """
        known = self._objects.get(key_of(manifest))
        uid = manifest["metadata"].get("uid", "")
        if known is not None and known["metadata"].get("uid") == uid and version_of(known) > version:
            return
        self.remove(manifest)
        self._tombstones[uid] = version
        if len(self._tombstones) > TOMBSTONES:
            self._tombstones.popitem(last=False)

    def expect(self, manifest: Manifest) -> None:
        """Announce the object as it will be after a status write, whose event may arrive before the response."""
        self._expected[key_of(manifest)] = _without_spec(manifest)

    def written(self, manifest: Manifest) -> None:
        """Store the response to a status write; its event is known by its version from now on."""
        self.put(manifest)
        self._expected.pop(key_of(manifest), None)

    def was_expected(self, manifest: Manifest) -> bool:
        """Whether this is the announced object. Only the next event of the object is compared with it."""
        expected = self._expected.pop(key_of(manifest), None)
        return expected is not None and expected == _without_spec(manifest)

    def get(self, key: ObjectKey) -> Manifest | None:
        return self._objects.get(key)

    def read(self, manifest: Manifest, how: Callable[[Manifest], T]) -> T:
        """Return ``how(manifest)`` for an object of the cache, or what it returned for this version of the object.

        Only that of the objects that were read last is kept, and of no large one: it takes as much memory as the object
        itself.
        """
        key = key_of(manifest)
        if key in self.large:
            return how(manifest)
        known = self._read.pop(key, None)
        if known is None or known[0] is not manifest:
            known = manifest, how(manifest)
        self._read[key] = known
        if len(self._read) > READ:
            self._read.popitem(last=False)
        found: T = known[1]
        return found

    def refused(self, service: ServiceKey) -> list[ObjectKey]:
        """Return of what there is an outline alone for lack of room: the service, and objects with its label."""
        keys = (ObjectKey(KIND, *service), *self._by_service.get(service, ()))
        return [key for key in keys if key in self._refused]

    def has_room(self, key: ObjectKey) -> bool:
        """Whether there is room by now for such an object."""
        return self._large_bytes(key.namespace) + self._refused[key] <= NAMESPACE_BYTES

    def kinds(self) -> list[str]:
        return [kind for kind, keys in self._by_kind.items() if keys]

    def of_kind(self, kind: str) -> Iterator[Manifest]:
        return (self._objects[key] for key in self._by_kind.get(kind, ()))

    def unlabelled(self, kind: str, namespace: str) -> Iterator[Manifest]:
        """Yield the objects of a kind in a namespace that have no service's label."""
        return (self._objects[key] for key in self._unlabelled.get((kind, namespace), ()))

    def of_service(self, service: ServiceKey) -> Iterator[Manifest]:
        """Yield the children and pods with the service's label, in a stable order."""
        return (self._objects[key] for key in sorted(self._by_service.get(service, ())))

    def service_of(self, manifest: Manifest) -> ServiceKey | None:
        name = labels_of(manifest).get(LABEL_SERVICE)
        return ServiceKey(manifest["metadata"].get("namespace", ""), name) if name else None

    def _large_object(self, key: ObjectKey, manifest: Manifest, size: int) -> Manifest:
        """Return the object, or its outline if the large ones of its namespace leave no room for it."""
        if not key.namespace:
            return manifest
        if self._large_bytes(key.namespace) + size > NAMESPACE_BYTES:
            self._refused[key] = size
            return outline(
                manifest,
                f"it has {size} bytes, and with the other objects of services in namespace {key.namespace} that have "
                f"more than {LARGE_BYTES} there are more than {NAMESPACE_BYTES}; make them smaller, or delete some",
            )
        self.large[key] = size
        return manifest

    def _large_bytes(self, namespace: str) -> int:
        return sum(size for key, size in self.large.items() if key.namespace == namespace)

    def _drop(self, key: ObjectKey) -> None:
        known = self._objects.pop(key, None)
        self._refused.pop(key, None)
        self.large.pop(key, None)
        self._read.pop(key, None)
        self._by_kind[key.kind].pop(key, None)
        self._unlabelled[key.kind, key.namespace].pop(key, None)
        if known is None or not (service := self.service_of(known)):
            return
        keys = self._by_service[service]
        keys.pop(key, None)
        if not keys:
            del self._by_service[service]


def version_of(manifest: Manifest) -> int:
    """Return the resource version as a number.

    Those of one kind increase (guaranteed since Kubernetes 1.35, true of etcd before). So a late event of a deleted
    object is known to be older than another object that has its name by now.
    """
    return int(manifest["metadata"]["resourceVersion"])


def _without_spec(manifest: Manifest) -> Manifest:
    """Return metadata and status; a changed spec, of whatever size, has another generation."""
    dropped = ("managedFields", "resourceVersion")
    metadata = {name: value for name, value in manifest["metadata"].items() if name not in dropped}
    return {"metadata": metadata, "status": manifest.get("status")}


def trimmed(manifest: Manifest) -> Manifest:
    """Return the object without what is not read here: managedFields, which are half of its size, and a pod's spec.

    Of the fields that are ours by an update it keeps that there are some; of an object that is too large, an outline.
    managedFields stay where they tell that an earlier revision was put back, which is until it is undone.
    """
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}
    if updated_by(FIELD_MANAGER, manifest):
        metadata["managedFields"] = _UPDATED_BY_US
    elif ANNOTATION_RENDERED in annotations_of(manifest) and is_put_back(manifest):
        metadata["managedFields"] = manifest["metadata"]["managedFields"]
    if LAST_APPLIED in annotations_of(manifest):
        metadata["annotations"] = {key: text for key, text in annotations_of(manifest).items() if key != LAST_APPLIED}
    kept = {**manifest, "metadata": metadata}
    if manifest["kind"] == "Pod" and "spec" in manifest:
        kept["spec"] = {name: value for name, value in manifest["spec"].items() if name in _OF_POD}
    too_much = excess_of_object(kept) if len(to_json(kept)) > LARGE_BYTES else None
    return outline(kept, f"{too_much}; make it smaller") if too_much else kept


def is_put_back(manifest: Manifest) -> bool:
    """Whether another client has written our digest: ``kubectl rollout undo`` puts back an earlier one.

    Of what is restored from a backup no field is ours.
    """
    digest, entries = f"f:{ANNOTATION_RENDERED}", manifest["metadata"].get("managedFields") or ()
    writers = {
        entry.get("manager")
        for entry in entries
        if digest in entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:annotations", {})
    }
    is_ours = any(entry.get("manager") == FIELD_MANAGER for entry in entries)
    return is_ours and bool(writers) and FIELD_MANAGER not in writers


def outline(manifest: Manifest, why: str) -> Manifest:
    """Return what identifies the object, and its status: it is not read any further, for the reason ``why``."""
    metadata = {name: value for name, value in manifest["metadata"].items() if len(to_json(value)) <= PART_BYTES}
    status = manifest.get("status") or {}
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": metadata,
        "spec": {},
        "status": status if len(to_json(status)) <= LARGE_BYTES else {},
        OMITTED: why,
    }
