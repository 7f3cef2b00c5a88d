"""Changes to the components of a service that serves, without a request lost on the way.

Callers are led to another component only when it serves: until its rollout is complete, the Ingress stays as it is, and
so do the transformer and the explainer in front of a predictor that takes another one's place. What they leave goes
last, when nothing of ours leads to it any more and ingress controllers have had the time to follow. A component that
was rolled out once keeps its place while it has no pod: most often the next one is on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from isvc_operator.api.names import LABEL_COMPONENT, PREDICTOR
from isvc_operator.kube.apply import Change
from isvc_operator.kube.cache import Manifest, ServiceKey
from isvc_operator.observe.rollout import Rollout, rollout_of

# Seconds for which an ingress controller may go on by what it has read before.
GRACE = 15.0


@dataclass(frozen=True)
class Due:
    """``changes`` to send now; ``again``: in how many seconds to look again, where only time has to pass.

    ``held``: callers stay where they are until another component is up.
    """

    changes: Sequence[Change] = ()
    again: float | None = None
    held: bool = False


@dataclass
class Handover:
    """Says which changes are due. ``clock`` counts seconds.

    After a restart, what is left to go has its time again.
    """

    clock: Callable[[], float]
    _settled: dict[ServiceKey, float] = field(default_factory=dict)

    def due(
        self, key: ServiceKey, changes: Sequence[Change], rendered: Sequence[Manifest], observed: Sequence[Manifest]
    ) -> Due:
        """What to do now. Of a service that wants no children any more, all go at once."""
        seen = {_name(child): rollout_of(child) for child in observed if child["kind"] == "Deployment"}
        serving = {name for name, rollout in seen.items() if rollout.serving or rollout.finished}
        wanted = {_name(child): _component(child) for child in rendered if child["kind"] == "Deployment"}
        rollouts = {**dict.fromkeys(wanted, rollout_of(None)), **seen}
        leaving = [change for change in changes if rendered and _is_component(change, serving) and change.deletes]
        staying = {*wanted, *(_name(change.manifest) for change in leaving)}
        led_to = {name for child in observed if _is_ingress(child, key) for name in _backends(child)} & staying
        moves = _awaits_predictor(leaving, wanted, rollouts)
        held = [*_held_ingress(changes, led_to, rollouts), *(_callers(changes, serving) if moves else ())]
        now = [change for change in changes if change not in leaving and change not in held]
        arriving = {name: component for name, component in wanted.items() if not rollouts[name].complete}
        if not leaving or _have_callers(leaving, now, led_to, serving, arriving):
            self.forget(key)
            return Due(now, held=moves or bool(held))
        left = self._settled.setdefault(key, self.clock()) + GRACE - self.clock()
        return Due(now, left, bool(held)) if left > 0 else Due([*now, *leaving], None, bool(held))

    def forget(self, key: ServiceKey) -> None:
        """Drop what is remembered about a service."""
        self._settled.pop(key, None)


def _awaits_predictor(leaving: Sequence[Change], wanted: Mapping[str, str], rollouts: Mapping[str, Rollout]) -> bool:
    """Whether a predictor is to take the place of another one, and cannot yet."""
    before = [_name(change.manifest) for change in leaving if _component(change.manifest) == PREDICTOR]
    after = [name for name, component in wanted.items() if component == PREDICTOR]
    return bool(before) and not _take_over(after, before, rollouts)


def _callers(changes: Sequence[Change], serving: Collection[str]) -> list[Change]:
    """Those of components that serve, and call the predictor."""
    applied = [change for change in changes if _is_component(change, serving) and not change.deletes]
    return [change for change in applied if _component(change.manifest) != PREDICTOR]


def _held_ingress(changes: Sequence[Change], led_to: Collection[str], rollouts: Mapping[str, Rollout]) -> list[Change]:
    """That of the Ingress, where it is to lead to a component that cannot take the place of those it leads to now."""
    if not led_to:
        return []
    ingresses = [change for change in changes if change.manifest["kind"] == "Ingress" and not change.deletes]
    return [
        change
        for change in ingresses
        if not _take_over({*_backends(change.manifest)}.difference(led_to), led_to, rollouts)
    ]


def _have_callers(
    leaving: Sequence[Change],
    now: Sequence[Change],
    led_to: Collection[str],
    serving: Collection[str],
    arriving: Mapping[str, str],
) -> bool:
    """Whether the Ingress may still lead to what leaves, or others call a predictor that leaves, and know no other yet.

    Rollouts of others are not waited for: they may need the room that what leaves takes.
    """
    if any(change.manifest["kind"] == "Ingress" for change in now):
        return True
    if any(_name(change.manifest) in led_to for change in leaving):
        return True
    if all(_component(change.manifest) != PREDICTOR for change in leaving):
        return False
    return bool(now) or any(component == PREDICTOR or name in serving for name, component in arriving.items())


def _take_over(after: Iterable[str], before: Iterable[str], rollouts: Mapping[str, Rollout]) -> bool:
    """Whether those after are rolled out; where nobody answers before them, whether each has a pod at least."""
    answered = any(rollouts[name].serving for name in before)
    new = [rollouts[name] for name in after]
    return all(rollout.complete or (rollout.serving and not answered) for rollout in new)


def _is_component(change: Change, names: Collection[str]) -> bool:
    """Whether it is about the Deployment or the Service of one of these components."""
    return change.manifest["kind"] != "Ingress" and _name(change.manifest) in names


def _is_ingress(child: Manifest, key: ServiceKey) -> bool:
    """Whether it is the service's own; a user may have made others, and labelled them."""
    return bool(child["kind"] == "Ingress" and _name(child) == key.name)


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
