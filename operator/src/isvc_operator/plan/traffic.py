"""The order of changes to a service that is serving, so that no request is lost.

Traffic moves to another component only when that is rolled out: until then the routes (the Ingress, or HTTPRoutes) are
not changed, and neither are the transformer and the explainer that call a predictor which is being replaced. The old
component is deleted last, when nothing refers to it any more and ingress controllers have had time to notice
(``controller/children.py``). A component that was rolled out once keeps its traffic while it has no available pod,
because most often the next pod is about to start.

A NetworkPolicy that closes a serving predictor to all but its transformer follows the routes, too, after the drain
period.

An Ingress that HTTPRoutes replace stays until they are accepted and the drain period has passed, and vice versa.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from isvc_operator.api.kinds import NETWORK_POLICY, is_route, kind_named
from isvc_operator.api.names import PREDICTOR, route_names
from isvc_operator.manifests import Manifest, name_of
from isvc_operator.observe.component import Rollout, rollout_of
from isvc_operator.observe.routes import is_in_place
from isvc_operator.plan.changes import ChildChange
from isvc_operator.plan.kept_pods import component_of


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
    """Order the changes of a service. All are sent at once if it has no children yet, or needs none any more."""
    if not observed:
        return TrafficPlan(changes)
    existing = {name_of(child): rollout_of(child) for child in observed if child["kind"] == "Deployment"}
    serving = {name for name, rollout in existing.items() if rollout.serving or rollout.finished}
    desired = {name_of(child): component_of(child) for child in rendered if child["kind"] == "Deployment"}
    rollouts = {**dict.fromkeys(desired, rollout_of(None)), **existing}
    leaving = serving.difference(desired)
    removed = [change for change in changes if rendered and _is_component(change, leaving) and change.deletes]
    remaining = {*desired, *(name_of(change.manifest) for change in removed)}
    routed = {name for child in observed if _is_own_route(child, service) for name in _backends(child)} & remaining
    waits = _waits_for_predictor(removed, desired, rollouts)
    held = [*_held_routes(changes, routed, rollouts), *(_clients(changes, serving) if waits else ())]
    replaced = _replaced_routes(changes, rendered)
    closing = _closing_policies(changes, serving, rendered)
    later = [*removed, *held, *replaced, *closing]
    now = [change for change in changes if change not in later]
    pending = {name: component for name, component in desired.items() if not rollouts[name].complete}
    drained = [*replaced, *closing] if _routes_in_place(changes, rendered, observed) else []
    if _in_use(removed, now, routed=routed, serving=serving, pending=pending):
        return TrafficPlan(now, drained, held=waits or bool(held))
    return TrafficPlan(now, [*drained, *removed], held=bool(held))


def _waits_for_predictor(
    removed: Sequence[ChildChange], desired: Mapping[str, str], rollouts: Mapping[str, Rollout]
) -> bool:
    """Whether a predictor replaces another one and is not ready for its traffic."""
    before = [name_of(change.manifest) for change in removed if component_of(change.manifest) == PREDICTOR]
    after = [name for name, component in desired.items() if component == PREDICTOR]
    return bool(before) and not _can_replace(after, before, rollouts)


def _clients(changes: Sequence[ChildChange], serving: Collection[str]) -> list[ChildChange]:
    """Return the updates of serving components that call the predictor."""
    applied = [change for change in changes if _is_component(change, serving) and not change.deletes]
    return [change for change in applied if component_of(change.manifest) != PREDICTOR]


def _held_routes(
    changes: Sequence[ChildChange], routed: Collection[str], rollouts: Mapping[str, Rollout]
) -> list[ChildChange]:
    """Return the changes of routes to components that cannot replace the current ones yet.

    Routes to a removed component stay until then, too.
    """
    if not routed:
        return []
    routes = [change for change in changes if is_route(change.manifest["kind"])]
    held = [
        change
        for change in routes
        if not change.deletes and not _can_replace({*_backends(change.manifest)}.difference(routed), routed, rollouts)
    ]
    return [*held, *(change for change in routes if held and change.deletes)]


def _replaced_routes(changes: Sequence[ChildChange], rendered: Sequence[Manifest]) -> list[ChildChange]:
    """Return the deletions of an Ingress that HTTPRoutes replace, or of HTTPRoutes that an Ingress replaces."""
    families = {_family(child) for child in rendered if is_route(child["kind"])}
    leaving = [change for change in changes if change.deletes and is_route(change.manifest["kind"])]
    return [change for change in leaving if families and _family(change.manifest) not in families]


def _closing_policies(
    changes: Sequence[ChildChange], serving: Collection[str], rendered: Sequence[Manifest]
) -> list[ChildChange]:
    """Return the NetworkPolicies of serving components that get no requests by the routes, or will get none."""
    routed = {name for child in rendered if is_route(child["kind"]) for name in _backends(child)}
    policies = [change for change in changes if change.manifest["kind"] == NETWORK_POLICY and not change.deletes]
    return [change for change in policies if routed and name_of(change.manifest) in {*serving}.difference(routed)]


def _family(route: Manifest) -> str:
    """Return the API group. An HTTPRoute and a GRPCRoute of one host are never accepted together: one leaves first."""
    return kind_named(route["kind"]).group


def _routes_in_place(
    changes: Sequence[ChildChange], rendered: Sequence[Manifest], observed: Sequence[Manifest]
) -> bool:
    """Whether every route is as rendered, and accepted."""
    changed = any(is_route(change.manifest["kind"]) and not change.deletes for change in changes)
    return not changed and all(is_in_place(child, observed) for child in rendered if is_route(child["kind"]))


def _in_use(
    removed: Sequence[ChildChange],
    now: Sequence[ChildChange],
    *,
    routed: Collection[str],
    serving: Collection[str],
    pending: Mapping[str, str],
) -> bool:
    """Whether a route may still lead to a removed component, or a component may still call a removed predictor.

    Rollouts of other components are not waited for: they may need the resources of what is removed.
    """
    if any(is_route(change.manifest["kind"]) for change in now):
        return True
    if any(name_of(change.manifest) in routed for change in removed):
        return True
    if all(component_of(change.manifest) != PREDICTOR for change in removed):
        return False
    return bool(now) or any(component == PREDICTOR or name in serving for name, component in pending.items())


def _can_replace(after: Iterable[str], before: Iterable[str], rollouts: Mapping[str, Rollout]) -> bool:
    """Whether the new components are rolled out; if no old one has an available pod, one pod of each is enough."""
    available = any(rollouts[name].serving for name in before)
    new = [rollouts[name] for name in after]
    return all(rollout.complete or (rollout.serving and not available) for rollout in new)


def _is_component(change: ChildChange, names: Collection[str]) -> bool:
    """Whether it changes a child of one of these components: its Deployment, its Service, its autoscaler, …"""
    return not is_route(change.manifest["kind"]) and name_of(change.manifest) in names


def _is_own_route(child: Manifest, service: str) -> bool:
    """Whether it is the operator's Ingress or route; the user may have created and labelled others."""
    return is_route(child["kind"]) and name_of(child) in route_names(service)


def _backends(route: Manifest) -> Iterator[str]:
    """Yield the Services of an Ingress, an HTTPRoute or a GRPCRoute."""
    for rule in route["spec"].get("rules", ()):
        for path in rule.get("http", {}).get("paths", ()):
            yield path["backend"].get("service", {}).get("name", "")
        for backend in rule.get("backendRefs", ()):
            yield backend.get("name", "")
