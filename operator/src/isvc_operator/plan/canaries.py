"""Holds back changes that were requested for a share of the callers: no canary is created, and nobody gets them.

The pods of a component keep the template that its Deployment has, so the decision needs no memory. A component that
has never served is rolled out as it is, like a first revision of KServe's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from isvc_operator.api.names import PREDICTOR
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Manifest, name_of
from isvc_operator.plan.kept_pods import component_of, deployments, keep_pods, replaces_pods, serves
from isvc_operator.resolve.canaries import ROLL_OUT


@dataclass(frozen=True)
class HeldBack:
    """``children`` are rendered with the pods that exist. ``components`` maps those concerned to the field that asks
    for it."""

    children: Sequence[Manifest]
    components: Mapping[str, str] = field(default_factory=dict)


def hold_back(rendered: Sequence[Manifest], owned: Sequence[Manifest], canaries: Mapping[str, str]) -> HeldBack:
    """Keep the pods of components with a canary; ``owned`` are the service's children, ``canaries`` of its spec.

    A component that calls a predictor that is held back is held back with it, because it may be rendered for the new
    one. Raises InvalidSpec if the predictor has another name: it could only be replaced for all callers.
    """
    if not canaries:
        return HeldBack(rendered)
    serving = {name: child for name, child in deployments(owned).items() if serves(child)}
    held: dict[str, str] = {}
    for name, child in deployments(rendered).items():  # the predictor comes first
        component = component_of(child)
        requested = canaries.get(component) or held.get(PREDICTOR)
        if not requested:
            continue
        before = serving.get(name)
        if before and replaces_pods(before, child):
            held[component] = requested
        elif component in canaries and not before:
            _refuse_another_name(component, canaries[component], serving.values())
    return HeldBack(keep_pods(rendered, owned, held, keep_notes=True), held)


def _refuse_another_name(component: str, requested: str, serving: Iterable[Manifest]) -> None:
    others = [name_of(child) for child in serving if component_of(child) == component]
    if others:
        raise InvalidSpec(
            f"{requested} requests a canary, which is not supported, and spec.{component}.name is not that of "
            f"Deployment {others[0]}, which serves; use the previous name. {ROLL_OUT}"
        )
