"""The order of changes to a service that is serving, so that no request is lost.

Traffic moves to another component only when that is rolled out: until then the Ingress is not changed, and neither are
the transformer and the explainer that call a predictor which is being replaced. The old component is deleted last, when
nothing refers to it any more and ingress controllers have had time to notice (``kube/drain.py``). A component that was
rolled out once keeps its traffic while it has no available pod, because most often the next pod is about to start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from isvc_operator.api.names import LABEL_COMPONENT, PREDICTOR
from isvc_operator.manifests import Manifest, labels_of, name_of
from isvc_operator.observe.rollout import Rollout, rollout_of
from isvc_operator.plan.changes import ChildChange


@dataclass(frozen=True)
class TrafficPlan:
    """``now`` can be sent at once. ``drained`` are deletions that may follow once the drain period has passed.

    ``held``: traffic stays on the old components until others are rolled out.
    """

    now: Sequence[ChildChange] = ()
    drained: Sequence[ChildChange] = ()
    held: bool = False


def plan_traffic(
    service: str, changes: Sequence[ChildChange], *, rendered: Sequence[Manifest], observed: Sequence[Manifest]
) -> TrafficPlan:
    """Order the changes of a service. If it needs no children any more, all changes are sent at once."""
    existing = {name_of(child): rollout_of(child) for child in observed if child["kind"] == "Deployment"}
    serving = {name for name, rollout in existing.items() if rollout.serving or rollout.finished}
    desired = {name_of(child): _component(child) for child in rendered if child["kind"] == "Deployment"}
    rollouts = {**dict.fromkeys(desired, rollout_of(None)), **existing}
    removed = [change for change in changes if rendered and _is_component(change, serving) and change.deletes]
    remaining = {*desired, *(name_of(change.manifest) for change in removed)}
    routed = {name for child in observed if _is_own_ingress(child, service) for name in _backends(child)} & remaining
    waits = _waits_for_predictor(removed, desired, rollouts)
    held = [*_held_ingress(changes, routed, rollouts), *(_clients(changes, serving) if waits else ())]
    now = [change for change in changes if change not in removed and change not in held]
    pending = {name: component for name, component in desired.items() if not rollouts[name].complete}
    if _in_use(removed, now, routed=routed, serving=serving, pending=pending):
        return TrafficPlan(now, held=waits or bool(held))
    return TrafficPlan(now, removed, held=bool(held))


def _waits_for_predictor(
    removed: Sequence[ChildChange], desired: Mapping[str, str], rollouts: Mapping[str, Rollout]
) -> bool:
    """Whether a predictor replaces another one and is not ready for its traffic."""
    before = [name_of(change.manifest) for change in removed if _component(change.manifest) == PREDICTOR]
    after = [name for name, component in desired.items() if component == PREDICTOR]
    return bool(before) and not _can_replace(after, before, rollouts)


def _clients(changes: Sequence[ChildChange], serving: Collection[str]) -> list[ChildChange]:
    """Return the updates of serving components that call the predictor."""
    applied = [change for change in changes if _is_component(change, serving) and not change.deletes]
    return [change for change in applied if _component(change.manifest) != PREDICTOR]


def _held_ingress(
    changes: Sequence[ChildChange], routed: Collection[str], rollouts: Mapping[str, Rollout]
) -> list[ChildChange]:
    """Return the update of the Ingress if it routes to a component that cannot replace the current ones yet."""
    if not routed:
        return []
    ingresses = [change for change in changes if change.manifest["kind"] == "Ingress" and not change.deletes]
    return [
        change
        for change in ingresses
        if not _can_replace({*_backends(change.manifest)}.difference(routed), routed, rollouts)
    ]


def _in_use(
    removed: Sequence[ChildChange],
    now: Sequence[ChildChange],
    *,
    routed: Collection[str],
    serving: Collection[str],
    pending: Mapping[str, str],
) -> bool:
    """Whether the Ingress may still route to a removed component, or a component may still call a removed predictor.

    Rollouts of other components are not waited for: they may need the resources of what is removed.
    """
    if any(change.manifest["kind"] == "Ingress" for change in now):
        return True
    if any(name_of(change.manifest) in routed for change in removed):
        return True
    if all(_component(change.manifest) != PREDICTOR for change in removed):
        return False
    return bool(now) or any(component == PREDICTOR or name in serving for name, component in pending.items())


def _can_replace(after: Iterable[str], before: Iterable[str], rollouts: Mapping[str, Rollout]) -> bool:
    """Whether the new components are rolled out; if no old one has an available pod, one pod of each is enough."""
    available = any(rollouts[name].serving for name in before)
    new = [rollouts[name] for name in after]
    return all(rollout.complete or (rollout.serving and not available) for rollout in new)


def _is_component(change: ChildChange, names: Collection[str]) -> bool:
    """Whether it changes the Deployment or the Service of one of these components."""
    return change.manifest["kind"] != "Ingress" and name_of(change.manifest) in names


def _is_own_ingress(child: Manifest, service: str) -> bool:
    """Whether it is the operator's Ingress; the user may have created and labelled others."""
    return bool(child["kind"] == "Ingress" and name_of(child) == service)


def _backends(ingress: Manifest) -> Iterator[str]:
    for rule in ingress["spec"].get("rules", ()):
        for path in rule.get("http", {}).get("paths", ()):
            yield path["backend"].get("service", {}).get("name", "")


def _component(child: Manifest) -> str:
    return labels_of(child).get(LABEL_COMPONENT, "")
