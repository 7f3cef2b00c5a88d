"""Changes to the components of a service that serves, without a request lost on the way.

Callers are led to another component only when it serves: until its rollout is complete, the Ingress stays as it is, and
so do the transformer and the explainer in front of a predictor that takes another one's place. What they leave goes
last, when all is rolled out and ingress controllers have had the time to follow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from isvc_operator.api.names import LABEL_COMPONENT, PREDICTOR
from isvc_operator.kube.apply import Change
from isvc_operator.kube.cache import Manifest, ServiceKey
from isvc_operator.observe.rollout import rollout_of

# Seconds for which an ingress controller may go on by what it has read before.
GRACE = 15.0


@dataclass
class Handover:
    """Says which changes are due. ``clock`` counts seconds.

    After a restart, what is left to go has its time again.
    """

    clock: Callable[[], float]
    _settled: dict[ServiceKey, float] = field(default_factory=dict)

    def due(
        self, key: ServiceKey, changes: Sequence[Change], rendered: Sequence[Manifest], observed: Sequence[Manifest]
    ) -> tuple[list[Change], float | None]:
        """The changes to send now; and in how many seconds to look again, where only time has to pass.

        Of a service that wants no children any more, all go at once.
        """
        rollouts = {_name(child): rollout_of(child) for child in observed if child["kind"] == "Deployment"}
        serving = {name for name, rollout in rollouts.items() if rollout.serving}
        complete = {name for name, rollout in rollouts.items() if rollout.complete}
        wanted = {_name(child): _component(child) for child in rendered if child["kind"] == "Deployment"}
        arriving = {name: component for name, component in wanted.items() if name not in complete}
        leaving = [change for change in changes if rendered and _is_component(change, serving) and change.deletes]
        held = [
            *_held_ingress(changes, observed, serving, arriving),
            *_held_callers(changes, leaving, serving, arriving),
        ]
        now = [change for change in changes if change not in leaving and change not in held]
        if now or held or arriving or not leaving:
            self.forget(key)
            return now, None
        left = self._settled.setdefault(key, self.clock()) + GRACE - self.clock()
        return ([], left) if left > 0 else (leaving, None)

    def forget(self, key: ServiceKey) -> None:
        """Drop what is remembered about a service."""
        self._settled.pop(key, None)


def _held_ingress(
    changes: Sequence[Change], observed: Sequence[Manifest], serving: Collection[str], arriving: Collection[str]
) -> list[Change]:
    """The Ingress, where it is to lead to a component that is not up, and now leads to one that serves."""
    led_to = {name for child in observed if child["kind"] == "Ingress" for name in _backends(child)}
    if led_to.isdisjoint(serving):
        return []
    unready = set(arriving) - led_to
    ingresses = [change for change in changes if change.manifest["kind"] == "Ingress" and not change.deletes]
    return [change for change in ingresses if not unready.isdisjoint(_backends(change.manifest))]


def _held_callers(
    changes: Sequence[Change], leaving: Sequence[Change], serving: Collection[str], arriving: Mapping[str, str]
) -> list[Change]:
    """Components that serve, and would be told of a predictor that is not up, while the one before is."""
    if PREDICTOR not in arriving.values() or PREDICTOR not in {_component(change.manifest) for change in leaving}:
        return []
    applied = [change for change in changes if _is_component(change, serving) and not change.deletes]
    return [change for change in applied if _component(change.manifest) != PREDICTOR]


def _is_component(change: Change, names: Collection[str]) -> bool:
    """Whether it is about the Deployment or the Service of one of these components."""
    return change.manifest["kind"] != "Ingress" and _name(change.manifest) in names


def _backends(ingress: Manifest) -> Iterator[str]:
    for rule in ingress["spec"].get("rules", ()):
        for path in rule.get("http", {}).get("paths", ()):
            yield path["backend"].get("service", {}).get("name", "")


def _name(child: Manifest) -> str:
    name: str = child["metadata"]["name"]
    return name


def _component(child: Manifest) -> str:
    component: str = (child["metadata"].get("labels") or {}).get(LABEL_COMPONENT, "")
    return component
