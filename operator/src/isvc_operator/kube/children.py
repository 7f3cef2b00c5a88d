"""Plans the changes of a service's children, orders them, and sends those that are due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from isvc_operator.kube.adoption import UnlabelledChildren, managed_by_kserve
from isvc_operator.kube.apply import apply_changes
from isvc_operator.kube.cache import Cache, ServiceKey
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.drain import Drain
from isvc_operator.manifests import Manifest
from isvc_operator.plan.changes import plan_changes
from isvc_operator.plan.traffic import plan_traffic


@dataclass(frozen=True)
class Applied:
    """``held``: traffic stays on old components until others are rolled out. ``requeue_after`` counts seconds."""

    held: bool = False
    requeue_after: float | None = None


class Children:
    """Applies and deletes the children of services. ``clock`` counts seconds."""

    def __init__(self, api: KubeApi, cache: Cache, clock: Callable[[], float]) -> None:
        self._api = api
        self._cache = cache
        self._drain = Drain(clock)
        self._unlabelled = UnlabelledChildren(api)

    async def apply(
        self, key: ServiceKey, service: Manifest, *, rendered: Sequence[Manifest], observed: Sequence[Manifest]
    ) -> Applied:
        """Send the changes that are due; raises KubeError if one of them fails."""
        uid, kserves = service["metadata"].get("uid") or "", managed_by_kserve(service)
        changes = plan_changes(rendered, observed, uid, managed_by_kserve=kserves)
        traffic = plan_traffic(key.name, changes, rendered=rendered, observed=observed)
        due = self._drain.due(key, traffic)
        await apply_changes(self._api, self._cache, due.changes)
        await self._unlabelled.delete(key, service, (*rendered, *observed))
        return Applied(traffic.held, due.requeue_after)

    def forget(self, key: ServiceKey) -> None:
        """Forget a service."""
        self._drain.forget(key)
        self._unlabelled.forget(key)
