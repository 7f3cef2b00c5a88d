"""Holds back changes that were requested for a share of the callers: no canary is created, and nobody gets them.

The pods of a component keep the template that its Deployment has, so the decision needs no memory. A component that
has never served is rolled out as it is, like a first revision of KServe's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isvc_operator.api.names import ANNOTATION_TEMPLATE, LABEL_COMPONENT, PREDICTOR
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Manifest, annotations_of, labels_of, name_of
from isvc_operator.observe.rollout import rollout_of
from isvc_operator.plan.changes import template_digest
from isvc_operator.plan.covers import covers
from isvc_operator.resolve.canaries import ROLL_OUT


@dataclass(frozen=True)
class HeldBack:
    """``children`` are rendered with the pods that exist. ``components`` maps those concerned to the field that asks
    for it."""

    children: Sequence[Manifest]
    components: Mapping[str, str] = field(default_factory=dict)


def hold_back(rendered: Sequence[Manifest], owned: Iterable[Manifest], canaries: Mapping[str, str]) -> HeldBack:
    """Keep the pods of components with a canary; ``owned`` are the service's children, ``canaries`` of its spec.

    A component that calls a predictor that is held back is held back with it, because it may be rendered for the new
    one. Raises InvalidSpec if the predictor has another name: it could only be replaced for all callers.
    """
    if not canaries:
        return HeldBack(rendered)
    known = {(child["kind"], name_of(child)): child for child in owned}
    serving = {key: child for key, child in known.items() if key[0] == "Deployment" and _serves(child)}
    held: dict[str, str] = {}
    for child in rendered:  # the predictor comes first
        component = _component(child)
        requested = canaries.get(component) or held.get(PREDICTOR)
        if child["kind"] != "Deployment" or not requested:
            continue
        before = serving.get(("Deployment", name_of(child)))
        if before and _differs(before, child):
            held[component] = requested
        elif component in canaries and not before:
            _refuse_another_name(component, canaries[component], serving.values())
    children = [_kept(child, known) if _component(child) in held else child for child in rendered]
    return HeldBack(children, held)


def _serves(deployment: Manifest) -> bool:
    rollout = rollout_of(deployment)
    return rollout.finished or rollout.serving > 0


def _differs(before: Manifest, after: Manifest) -> bool:
    """Whether the pods would be replaced. A child without the digest is KServe's, or an older version's of ours."""
    digest = annotations_of(before).get(ANNOTATION_TEMPLATE)
    if digest is None:
        return not covers(before["spec"]["template"], after["spec"]["template"])
    return digest != template_digest(after)


def _refuse_another_name(component: str, requested: str, serving: Iterable[Manifest]) -> None:
    others = [name_of(child) for child in serving if _component(child) == component]
    if others:
        raise InvalidSpec(
            f"{requested} requests a canary, which is not supported, and spec.{component}.name is not that of "
            f"Deployment {others[0]}, which serves; use the previous name. {ROLL_OUT}"
        )


def _kept(child: Manifest, known: Mapping[tuple[str, str], Manifest]) -> Manifest:
    """Return the child with the pods, or the ports that lead to them, as they exist; the rest may change."""
    before = known.get((child["kind"], name_of(child)))
    if before is None:
        return child
    if child["kind"] == "Service":
        return {**child, "spec": {**child["spec"], "ports": before["spec"]["ports"]}}
    if child["kind"] != "Deployment":
        return child
    digest = annotations_of(before).get(ANNOTATION_TEMPLATE)
    kept: dict[str, Any] = {**child, "spec": {**child["spec"], "template": before["spec"]["template"]}}
    if digest is not None:
        kept["metadata"] = {
            **child["metadata"], "annotations": {**annotations_of(child), ANNOTATION_TEMPLATE: digest},
        }  # fmt: skip
    return kept


def _component(child: Manifest) -> str:
    return labels_of(child).get(LABEL_COMPONENT, "")
