"""Whether the cluster has the CRD of an optional kind, such as KEDA's ScaledObject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import ObjectNotFound

TTL = 30.0  # seconds


@dataclass
class Discovery:
    """Asks the API server which kinds it has, and keeps the answers for a short time. ``clock`` counts seconds."""

    api: KubeApi
    clock: Callable[[], float]
    _known: dict[str, tuple[float, bool]] = field(default_factory=dict)

    async def has(self, kind: str) -> bool:
        """Whether objects of this kind can be created; raises KubeError if the API server does not say."""
        known = self._known.get(kind)
        if known is None or known[0] <= self.clock():
            try:
                await self.api.send(requests.discover(kind))
                found = True
            except ObjectNotFound:
                found = False
            known = self._known[kind] = self.clock() + TTL, found
        return known[1]
