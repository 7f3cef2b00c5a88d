"""Orders the changes of a service's children, and sends those that are due."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from isvc_operator.controller.adoption import label_children
from isvc_operator.controller.apply import apply_changes
from isvc_operator.controller.memory import ServiceMemory
from isvc_operator.controller.restores import Restores
from isvc_operator.decide import Decision, Inputs
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.manifests import name_of
from isvc_operator.observe.contested import Contested
from isvc_operator.plan.changes import ChildAction, ChildChange, managed_by_kserve
from isvc_operator.plan.traffic import TrafficPlan, plan_traffic

# Seconds for which an ingress controller may still use the routes that it has read before.
DRAIN_SECONDS = 15.0
# Seconds. So often one child of an optional kind whose CRD is not installed is tried again, for all services together:
# nothing has to be watched or granted to find out when a CRD is installed.
MISSING_SECONDS = 10.0


@dataclass(frozen=True)
class Applied:
    """How far the changes of a service have got.

    ``held``: traffic stays on old components until others are rolled out. ``requeue_after`` counts seconds. ``missing``
    are the optional kinds that are rendered and whose CRD is not installed. ``contested`` are the children that do not
    stay as rendered. ``created``: some were created just now. ``complete``: all changes were sent that were not
    restored too often.
    """

    held: bool = False
    requeue_after: float | None = None
    missing: frozenset[str] = frozenset()
    contested: Sequence[Contested] = ()
    created: bool = False
    complete: bool = False


class Children:
    """Applies and deletes the children of services. ``clock`` counts seconds; ``restored`` gets each restored kind."""

    def __init__(self, api: KubeApi, cache: Cache, clock: Callable[[], float], restored: Callable[[str], None]) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._restores = Restores(api, cache, clock, restored)
        self._missing: dict[str, float] = {}  # until when the API server is known to lack a kind

    async def apply(self, inputs: Inputs, decision: Decision, memory: ServiceMemory) -> Applied:
        """Send the changes that are due; raises KubeError if one of them fails."""
        changes = await self._restores.due(decision.changes, memory.sent)
        children, observed = decision.children, inputs.children
        traffic = plan_traffic(name_of(inputs.body), changes, rendered=children, observed=observed)
        due, drained_in = due_changes(traffic, memory, self._clock())
        missing = self._lacking(due)
        sending = [change for change in due if change.deletes or change.manifest["kind"] not in missing]
        note = partial(self._restores.note, memory.sent)
        lacking = await apply_changes(self._api, self._cache, sending, note)
        self._missing.update(dict.fromkeys(lacking, self._clock() + MISSING_SECONDS))
        if managed_by_kserve(inputs.body) and not memory.labelled:
            await label_children(self._api, inputs.body, (*children, *observed))
            memory.labelled = True
        missing = self._lacking(due)
        contested, until = self._restores.contested(children, decision.changes, memory.sent)
        # No watch reports what was sent just now (its response is in the cache), and that is what the others wait for.
        follows = 0.0 if sending and len(due) < len(changes) else None
        times = (follows, drained_in, MISSING_SECONDS if missing else None, until)
        return Applied(
            held=traffic.held,
            requeue_after=min((seconds for seconds in times if seconds is not None), default=None),
            missing=missing,
            contested=contested,
            created=any(change.action is ChildAction.CREATE for change in sending),
            complete=len(due) == len(changes),
        )

    def _lacking(self, changes: Iterable[ChildChange]) -> frozenset[str]:
        """Return the kinds of the changes whose CRD is not installed. Deletions do no harm."""
        kinds = {change.manifest["kind"] for change in changes if not change.deletes}
        return frozenset(kind for kind in kinds if self._clock() < self._missing.get(kind, 0))


def due_changes(traffic: TrafficPlan, memory: ServiceMemory, now: float) -> tuple[Sequence[ChildChange], float | None]:
    """Return the changes that can be sent now, and the seconds that are left of a drain period.

    After a restart of the operator the drain period starts again.
    """
    if not traffic.drained:
        memory.drained_since = None
        return traffic.now, None
    if memory.drained_since is None:
        memory.drained_since = now
    if (left := memory.drained_since + DRAIN_SECONDS - now) > 0:
        return traffic.now, left
    memory.drained_since = None  # what is removed next is drained for a period of its own
    return [*traffic.now, *traffic.drained], None
