"""Keeps the pods that run: a Deployment is rendered with the template that it has, and its Service with its ports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from isvc_operator.api.inference_service import InferenceServiceSpec
from isvc_operator.api.names import (
    ANNOTATION_INPUTS,
    ANNOTATION_OWN_INPUTS,
    ANNOTATION_RENDERED,
    ANNOTATION_TEMPLATE,
    ANNOTATION_VERSION,
    ANNOTATION_WAITING,
    LABEL_COMPONENT,
    PREDICTOR,
)
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Manifest, annotations_of, digest_of, labels_of, name_of
from isvc_operator.observe.rollout import rollout_of
from isvc_operator.observe.status import ROLL_OUT
from isvc_operator.plan.changes import template_digest
from isvc_operator.plan.diff import matches
from isvc_operator.resolve.requested import specified_components

_ALL = 100  # per cent of the traffic
# What a Deployment says about the template that its pods have.
_OF_THE_PODS = (ANNOTATION_TEMPLATE, ANNOTATION_VERSION)
# And about what it is rendered from now, or what waits.
_NOTES = (ANNOTATION_INPUTS, ANNOTATION_OWN_INPUTS, ANNOTATION_WAITING)


def component_of(child: Manifest) -> str:
    """Return the kind of the component that the child belongs to; empty for routes."""
    return labels_of(child).get(LABEL_COMPONENT, "")


def deployments(children: Iterable[Manifest]) -> dict[str, Manifest]:
    """Return the Deployments by their names."""
    return {name_of(child): child for child in children if child["kind"] == "Deployment"}


def serves(deployment: Manifest) -> bool:
    """Whether its pods serve requests, or have done so and failed since."""
    rollout = rollout_of(deployment)
    return rollout.finished or rollout.serving > 0


def replaces_pods(before: Manifest, after: Manifest) -> bool:
    """Whether the pods of a Deployment would be replaced if it was applied as it is rendered now.

    Version 0.1.0 has recorded the digest of the Deployment, but not that of its template: any change counts.
    """
    annotations = annotations_of(before)
    if digest := annotations.get(ANNOTATION_TEMPLATE):
        return digest != template_digest(after)
    if digest := annotations.get(ANNOTATION_RENDERED):
        return digest != digest_of(after)
    return not matches(before["spec"]["template"], after["spec"]["template"])


def keep_pods(
    rendered: Sequence[Manifest], owned: Iterable[Manifest], components: Collection[str], *, keep_notes: bool
) -> list[Manifest]:
    """Return the children, those of ``components`` with their pods, or the ports that lead to them, as they exist.

    The rest of these children may change. ``keep_notes``: what a Deployment says about where its template comes from
    stays, too.
    """
    notes = (*_OF_THE_PODS, *(_NOTES if keep_notes else ()))
    known = {(child["kind"], name_of(child)): child for child in owned}
    return [
        _kept(child, known.get((child["kind"], name_of(child))), notes) if component_of(child) in components else child
        for child in rendered
    ]


def _kept(child: Manifest, before: Manifest | None, notes: Sequence[str]) -> Manifest:
    if before is None:
        return child
    if child["kind"] == "Service":
        return {**child, "spec": {**child["spec"], "ports": before["spec"]["ports"]}}
    if child["kind"] != "Deployment":
        return child
    there, template = annotations_of(before), before["spec"]["template"]
    noted = {name: there[name] for name in notes if name in there}
    kept: Mapping[str, Any] = {**child, "spec": {**child["spec"], "template": template}}
    return with_annotations(kept, {ANNOTATION_TEMPLATE: digest_of(template), **noted})


def with_annotations(child: Manifest, annotations: Mapping[str, str]) -> Manifest:
    """Return the child with more annotations."""
    merged = {**annotations_of(child), **annotations}
    return {**child, "metadata": {**child["metadata"], "annotations": merged}}


def canary_requests(spec: InferenceServiceSpec) -> Mapping[str, str]:
    """Return the kinds of the components for which a canary is requested, each with the fields that do so.

    A change of their pods is meant for a share of the callers.
    """
    found: dict[str, list[str]] = {PREDICTOR: ["spec.canary"]} if spec.canary else {}
    for kind, component in specified_components(spec):
        percent = component.canary_traffic_percent
        if percent is not None and percent < _ALL:
            found.setdefault(kind, []).append(f"spec.{kind}.canaryTrafficPercent: {percent}")
    return {kind: " and ".join(fields) for kind, fields in found.items()}


def hold_back(
    rendered: Sequence[Manifest], owned: Sequence[Manifest], canaries: Mapping[str, str]
) -> tuple[Sequence[Manifest], Mapping[str, str]]:
    """Keep the pods of components with a canary, which was requested for a share of the callers.

    No canary is created, and nobody gets the change: the pods keep the template that their Deployment has, so the
    decision needs no memory. A component that has never served is rolled out as it is, like a first revision of
    KServe's. ``owned`` are the service's children, ``canaries`` of its spec. Returns the children with the pods that
    exist, and the components concerned, each with the field that asks for it.

    A component that calls a predictor that is held back is held back with it, because it may be rendered for the new
    one. Raises InvalidSpec if the predictor has another name: it could only be replaced for all callers.
    """
    if not canaries:
        return rendered, {}
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
    return keep_pods(rendered, owned, held, keep_notes=True), held


def _refuse_another_name(component: str, requested: str, serving: Iterable[Manifest]) -> None:
    others = [name_of(child) for child in serving if component_of(child) == component]
    if others:
        raise InvalidSpec(
            f"{requested} requests a canary, which is not supported, and spec.{component}.name is not that of "
            f"Deployment {others[0]}, which serves; use the previous name. {ROLL_OUT}"
        )
