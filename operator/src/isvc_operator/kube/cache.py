"""What the watches have told us, trimmed to what reconciling reads.

The handlers feed it; ``gather`` reads it instead of asking the API server. An answer to our own write is put here at
once, so a reconcile that follows reads its own writes; an older event that arrives later is recognised by its
resource version and ignored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from isvc_operator.api.inference_service import KIND
from isvc_operator.config import IngressConfig
from isvc_operator.resolve.host_claims import HostClaims

Manifest = Mapping[str, Any]
T = TypeVar("T")


class ObjectKey(NamedTuple):
    """Identity of an object in the cache; ``namespace`` is empty for cluster-wide kinds."""

    kind: str
    namespace: str
    name: str


class ServiceKey(NamedTuple):
    """Identity of an InferenceService: the key of the work queue."""

    namespace: str
    name: str


def key_of(manifest: Manifest) -> ObjectKey:
    """The object's own key."""
    metadata = manifest["metadata"]
    return ObjectKey(manifest["kind"], metadata.get("namespace", ""), metadata["name"])


class Cache:
    """Objects by key, by kind, and by the service they belong to; ``hosts`` are those that the services ask for."""

    def __init__(self, service_label: str) -> None:
        self._service_label = service_label
        self.hosts = HostClaims(IngressConfig())
        self._objects: dict[ObjectKey, Manifest] = {}
        self._by_kind: defaultdict[str, dict[ObjectKey, None]] = defaultdict(dict)
        self._by_service: defaultdict[ServiceKey, dict[ObjectKey, None]] = defaultdict(dict)
        self._expected: dict[ObjectKey, Manifest] = {}
        self._read: dict[ObjectKey, tuple[Manifest, Any]] = {}

    def put(self, manifest: Manifest) -> None:
        """Keep the object, unless a newer state of it is known."""
        key = key_of(manifest)
        known = self._objects.get(key)
        if known is not None and version_of(manifest) < version_of(known):
            return
        self._forget(key)
        self._objects[key] = _trimmed(manifest)
        self._by_kind[key.kind][key] = None
        if service := self.service_of(manifest):
            self._by_service[service][key] = None
        if key.kind == KIND:
            self.hosts.put(manifest)

    def remove(self, manifest: Manifest) -> None:
        """Forget the object, unless another one has taken its name."""
        key = key_of(manifest)
        known = self._objects.get(key)
        if known is not None and known["metadata"].get("uid") == manifest["metadata"].get("uid"):
            self._forget(key)
            self._expected.pop(key, None)
            if key.kind == KIND:
                self.hosts.remove(manifest)

    def expect(self, manifest: Manifest) -> None:
        """Tell how a write of a status that is about to be sent will leave the object.

        Its event may come before its answer.
        """
        self._expected[key_of(manifest)] = _without_spec(manifest)

    def was_expected(self, manifest: Manifest) -> bool:
        """Whether this is what was expected. Only the next event of the object is compared with it."""
        expected = self._expected.pop(key_of(manifest), None)
        return expected is not None and expected == _without_spec(manifest)

    def get(self, key: ObjectKey) -> Manifest | None:
        """The object as last seen."""
        return self._objects.get(key)

    def read(self, manifest: Manifest, how: Callable[[Manifest], T]) -> T:
        """What ``how`` makes of an object of the cache; it is asked once for each state of the object."""
        key = key_of(manifest)
        known = self._read.get(key)
        if known is None or known[0] is not manifest:
            known = self._read[key] = manifest, how(manifest)
        found: T = known[1]
        return found

    def kinds(self) -> list[str]:
        """The kinds of which there is an object."""
        return [kind for kind, keys in self._by_kind.items() if keys]

    def of_kind(self, kind: str) -> Iterator[Manifest]:
        """Every object of a kind."""
        return (self._objects[key] for key in self._by_kind.get(kind, ()))

    def of_service(self, service: ServiceKey) -> Iterator[Manifest]:
        """Children and pods that carry the service's label, in a stable order."""
        return (self._objects[key] for key in sorted(self._by_service.get(service, ())))

    def service_of(self, manifest: Manifest) -> ServiceKey | None:
        """The service whose label the object carries."""
        metadata = manifest["metadata"]
        name = (metadata.get("labels") or {}).get(self._service_label)
        return ServiceKey(metadata.get("namespace", ""), name) if name else None

    def _forget(self, key: ObjectKey) -> None:
        known = self._objects.pop(key, None)
        self._read.pop(key, None)
        self._by_kind[key.kind].pop(key, None)
        if known is None or not (service := self.service_of(known)):
            return
        keys = self._by_service[service]
        keys.pop(key, None)
        if not keys:
            del self._by_service[service]


def version_of(manifest: Manifest) -> int:
    """Its resource version. Those of one kind grow (guaranteed since Kubernetes 1.35, true of etcd before).

    So a late event of an object that is gone is known to be older than the object that has taken its name.
    """
    return int(manifest["metadata"]["resourceVersion"])


def _without_spec(manifest: Manifest) -> Manifest:
    """Metadata and status: its generation tells of a spec, of whatever size, that has changed."""
    dropped = ("managedFields", "resourceVersion")
    metadata = {name: value for name, value in manifest["metadata"].items() if name not in dropped}
    return {"metadata": metadata, "status": manifest.get("status")}


def _trimmed(manifest: Manifest) -> Manifest:
    """Without managedFields, which are half of an object's size and read by nobody here."""
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}
    return {**manifest, "metadata": metadata}
