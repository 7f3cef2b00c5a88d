"""Plans the changes of a service's children, orders them, and sends those that are due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from isvc_operator.controller.adoption import UnlabelledChildren, managed_by_kserve
from isvc_operator.controller.apply import apply_changes
from isvc_operator.controller.drain import Drain
from isvc_operator.controller.missing_kinds import RETRY_SECONDS, MissingKinds
from isvc_operator.controller.pace import Pace
from isvc_operator.controller.restores import Restores
from isvc_operator.kube.cache import Cache
from isvc_operator.kube.client import KubeApi
from isvc_operator.manifests import Manifest, ServiceKey, controller_of
from isvc_operator.observe.contested import Contested
from isvc_operator.observe.status import WaitingTemplate
from isvc_operator.plan.canaries import HeldBack, hold_back
from isvc_operator.plan.changes import ChildAction, plan_changes
from isvc_operator.plan.traffic import plan_traffic
from isvc_operator.plan.upgrades import RenderOrigin, Upgrade, plan_upgrade, without_records


@dataclass(frozen=True)
class Applied:
    """``held``: traffic stays on old components until others are rolled out. ``requeue_after`` counts seconds.

    ``missing`` are the optional kinds that are rendered and whose CRD is not installed.
    ``held_back``: the components whose pods are not changed, each with the field that requests a canary. ``waiting``:
    those whose pods do not get the template that is rendered now yet. ``contested`` are the children that do not stay
    as rendered. ``created``: some were created just now.
    """

    held: bool = False
    held_back: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, WaitingTemplate] = field(default_factory=dict)
    requeue_after: float | None = None
    missing: frozenset[str] = frozenset()
    contested: Sequence[Contested] = ()
    created: bool = False


class Children:
    """Applies and deletes the children of services. ``clock`` counts seconds; ``restored`` gets each restored kind."""

    def __init__(self, api: KubeApi, cache: Cache, clock: Callable[[], float], restored: Callable[[str], None]) -> None:
        self._api = api
        self._cache = cache
        self._drain = Drain(clock)
        self._pace = Pace(clock)
        self._missing = MissingKinds(clock)
        self._restores = Restores(api, cache, clock, restored)
        self._unlabelled = UnlabelledChildren(api)

    async def apply(
        self,
        key: ServiceKey,
        service: Manifest,
        *,
        rendered: Sequence[Manifest],
        observed: Sequence[Manifest],
        canaries: Mapping[str, str],
        origin: RenderOrigin,
        rollouts_per_minute: int,
    ) -> Applied:
        """Send the changes that are due; raises KubeError if one of them fails.

        ``canaries`` are the components with a canary, each with the field that requests it. Raises InvalidSpec if one
        of them cannot be kept as it is. ``origin`` is what the children are rendered from. ``rollouts_per_minute``: of
        services that have not changed themselves; 0 for no limit.
        """
        uid, kserves = service["metadata"].get("uid") or "", managed_by_kserve(service)
        owned = [child for child in observed if controller_of(child).get("uid") == uid]
        held_back = hold_back(rendered, owned, canaries)
        upgrade, turn = self._upgrade(key, held_back, owned, origin, rollouts_per_minute)
        rendered = upgrade.children
        planned = plan_changes(rendered, observed, uid, managed_by_kserve=kserves)
        if upgrade.queued:
            planned = without_records(planned, owned)
        changes = await self._restores.due(planned)
        traffic = plan_traffic(key.name, changes, rendered=rendered, observed=observed)
        due = self._drain.due(key, traffic)
        sending = self._missing.left_out_of(due.changes)
        self._missing.add(await apply_changes(self._api, self._cache, sending, self._restores.sent))
        if not upgrade.queued and len(due.changes) == len(changes):
            self._pace.forget(key)
        await self._unlabelled.label(key, service, (*rendered, *observed))
        missing = self._missing.among(due.changes)
        contested, until = self._restores.contested(rendered, planned)
        # No watch reports what was sent just now (its response is in the cache), and that is what the others wait for.
        follows = 0.0 if sending and len(due.changes) < len(changes) else None
        times = (follows, due.requeue_after, RETRY_SECONDS if missing else None, until, turn)
        requeue_after = min((seconds for seconds in times if seconds is not None), default=None)
        return Applied(
            held=traffic.held,
            held_back=held_back.components,
            waiting=upgrade.waiting,
            requeue_after=requeue_after,
            missing=missing,
            contested=contested,
            created=any(change.action is ChildAction.CREATE for change in sending),
        )

    def _upgrade(
        self, key: ServiceKey, held_back: HeldBack, owned: Sequence[Manifest], origin: RenderOrigin, per_minute: int
    ) -> tuple[Upgrade, float | None]:
        """Keep the pods that do not follow the operator's version, or whose turn it is not; and in how many seconds."""
        planned = partial(plan_upgrade, held_back.children, owned, origin, held_back=held_back.components)
        upgrade = planned(in_turn=per_minute > 0)
        if not upgrade.queued:
            return upgrade, None
        left = self._pace.wait(key, per_minute)
        return (upgrade, left) if left else (planned(), None)

    def contested(self) -> int:
        """Return how many children others fight over now."""
        return self._restores.count()

    def forget(self, key: ServiceKey) -> None:
        """Forget a service."""
        self._drain.forget(key)
        self._pace.forget(key)
        self._unlabelled.forget(key)
