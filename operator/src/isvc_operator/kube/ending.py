"""Remembers the services whose namespaces are being deleted: nothing can be created there any more."""

from __future__ import annotations

from dataclasses import dataclass, field

from isvc_operator.api.inference_service import KIND
from isvc_operator.kube.cache import Cache, ObjectKey, ServiceKey, key_of


@dataclass
class Ending:
    """Knows services by their uids: a namespace that ends never comes back, but another one may have its name."""

    cache: Cache
    _uids: dict[ServiceKey, str] = field(default_factory=dict)

    def add(self, namespace: str) -> None:
        """Remember the services that are in this namespace."""
        for body in self.cache.of_kind(KIND):
            key = key_of(body)
            if key.namespace == namespace:
                self._uids[ServiceKey(namespace, key.name)] = body["metadata"]["uid"]

    def __contains__(self, key: ServiceKey) -> bool:
        """Whether it is a service of such a namespace."""
        body = self.cache.get(ObjectKey(KIND, *key))
        return body is not None and self._uids.get(key) == body["metadata"]["uid"]

    def forget(self, key: ServiceKey) -> None:
        """Forget a service."""
        self._uids.pop(key, None)
