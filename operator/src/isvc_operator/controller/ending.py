"""Remembers the services whose namespaces are being deleted: nothing can be created there any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from isvc_operator.api.inference_service import KIND
from isvc_operator.kube.cache import Cache, ObjectKey, key_of
from isvc_operator.manifests import ServiceKey

# Seconds. The response of a request to a namespace may come when there is another one of that name, with its services.
TRIED_AGAIN: Final = 300.0


@dataclass
class Ending:
    """Knows services by their uids: a namespace that ends never comes back, but another one may have its name.

    ``clock`` counts seconds.
    """

    cache: Cache
    clock: Callable[[], float]
    _until: dict[ServiceKey, tuple[str, float]] = field(default_factory=dict)

    def add(self, namespace: str) -> None:
        """Remember the services that are in this namespace."""
        until = self.clock() + TRIED_AGAIN
        for body in self.cache.of_kind(KIND):
            key = key_of(body)
            if key.namespace == namespace:
                self._until[ServiceKey(namespace, key.name)] = body["metadata"]["uid"], until

    def left(self, key: ServiceKey) -> float:
        """Return in how many seconds to try again for a service of such a namespace; 0 for others."""
        uid, until = self._until.get(key, ("", 0.0))
        body = self.cache.get(ObjectKey(KIND, *key))
        return max(0.0, until - self.clock()) if body is not None and body["metadata"]["uid"] == uid else 0.0

    def forget(self, key: ServiceKey) -> None:
        """Forget a service."""
        self._until.pop(key, None)
