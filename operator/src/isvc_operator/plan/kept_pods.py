"""Keeps the pods that run: a Deployment is rendered with the template that it has, and its Service with its ports.

That is where a change is meant for a canary, and where the service has not changed, but the operator has, or what many
services share.

A newer version of the operator replaces no pods by itself. Each Deployment records the version that has rendered its
pod template, and digests of what it was rendered from (the inputs: service, runtime, configuration), and of the
service's own part of that. So a reconcile can tell a change of the service from one that others have made, and that
from one that came with the operator. A template of another version that waits is recorded by its digest, until somebody
changes what the pods are made from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from isvc_operator.api.inference_service import InferenceServiceSpec
from isvc_operator.api.names import (
    ANNOTATION_INPUTS,
    ANNOTATION_OWN_INPUTS,
    ANNOTATION_RENDERED,
    ANNOTATION_SHARED_INPUTS,
    ANNOTATION_TEMPLATE,
    ANNOTATION_VERSION,
    ANNOTATION_WAITING,
    LABEL_COMPONENT,
    PREDICTOR,
)
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Manifest, annotations_of, digest_of, labels_of, name_of
from isvc_operator.observe.component import rollout_of
from isvc_operator.observe.status import ROLL_OUT, WaitingTemplate
from isvc_operator.plan.changes import ChildAction, ChildChange, template_digest
from isvc_operator.plan.diff import differences, matches
from isvc_operator.resolve.requested import specified_components
from isvc_operator.resolve.upgrades import InputDigests

_ALL = 100  # per cent of the traffic
# What a Deployment says about the template that its pods have.
_OF_THE_PODS = (ANNOTATION_TEMPLATE, ANNOTATION_VERSION)
# And about what it is rendered from now, or what waits.
_NOTES = (ANNOTATION_INPUTS, ANNOTATION_OWN_INPUTS, ANNOTATION_SHARED_INPUTS, ANNOTATION_WAITING)


def component_of(child: Manifest) -> str:
    """Return the kind of the component that the child belongs to; empty for routes."""
    return labels_of(child).get(LABEL_COMPONENT, "")


def deployments(children: Iterable[Manifest]) -> dict[str, Manifest]:
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


def pause_rollouts(
    rendered: Sequence[Manifest], owned: Sequence[Manifest], canaries: Mapping[str, str]
) -> tuple[Sequence[Manifest], Mapping[str, str]]:
    """Pause the rollout of components with a canary, which was requested for a share of the callers.

    No canary is created, and nobody gets the change: the pods keep the template that their Deployment has, so the
    decision needs no memory. A component that has never served is rolled out as it is, like a first revision of
    KServe's. ``owned`` are the service's children, ``canaries`` of its spec. Returns the children with the pods that
    exist, and the components concerned, each with the field that asks for it.

    A component that calls a predictor whose rollout is paused is paused with it, because it may be rendered for the new
    one. Raises InvalidSpec if the predictor has another name: it could only be replaced for all callers.
    """
    if not canaries:
        return rendered, {}
    serving = {name: child for name, child in deployments(owned).items() if serves(child)}
    paused: dict[str, str] = {}
    for name, child in deployments(rendered).items():  # the predictor comes first
        component = component_of(child)
        requested = canaries.get(component) or paused.get(PREDICTOR)
        if not requested:
            continue
        before = serving.get(name)
        if before and replaces_pods(before, child):
            paused[component] = requested
        elif component in canaries and not before:
            _refuse_another_name(component, canaries[component], serving.values())
    return keep_pods(rendered, owned, paused, keep_notes=True), paused


def _refuse_another_name(component: str, requested: str, serving: Iterable[Manifest]) -> None:
    others = [name_of(child) for child in serving if component_of(child) == component]
    if others:
        raise InvalidSpec(
            f"{requested} requests a canary, which is not supported, and spec.{component}.name is not that of "
            f"Deployment {others[0]}, which serves; use the previous name. {ROLL_OUT}"
        )


class Due(Enum):
    """When running pods get the template that is rendered now."""

    AT_ONCE = auto()  # the service has changed
    IN_TURN = auto()  # something that services share has
    ON_CHANGE = auto()  # only the operator has


@dataclass(frozen=True)
class RenderOrigin:
    """What the pods of each component are rendered from, and by which version of the operator.

    ``edited``: the service has changed since its last reconcile. ``automatic``: its pods follow the operator's version.
    """

    inputs: InputDigests
    version: str
    edited: bool = False
    automatic: bool = False


@dataclass(frozen=True)
class Upgrade:
    """``children`` record where they come from, and are rendered with the pods that exist where a template waits.

    ``waiting`` has the components concerned. ``queued``: they wait for the service's turn.
    """

    children: Sequence[Manifest]
    waiting: Mapping[str, WaitingTemplate] = field(default_factory=dict)
    queued: bool = False


def plan_upgrade(
    rendered: Sequence[Manifest],
    owned: Sequence[Manifest],
    origin: RenderOrigin,
    *,
    paused: Collection[str] = (),
    in_turn: bool = False,
) -> Upgrade:
    """Keep the pods that would be replaced only because the operator is another version.

    ``in_turn``: keep those, too, that would be replaced for something that services share. What their Deployments
    record stays as it is, so that the next reconcile finds the same.

    A component that does not serve gets the newest template. When somebody has changed one component, all of a service
    do: they are rendered for one another. ``paused`` are components whose pods are kept for another reason.
    """
    existing = deployments(owned)
    desired = {name: item for name, item in deployments(rendered).items() if component_of(item) not in paused}
    due = _due([(existing.get(name), child) for name, child in desired.items()], origin)
    waiting: dict[str, WaitingTemplate] = {}
    if due is Due.ON_CHANGE or (due is Due.IN_TURN and in_turn):
        for name, child in desired.items():
            if _is_running(existing[name]) and replaces_pods(existing[name], child):
                waiting[component_of(child)] = _waiting(existing[name], child, origin, due)
    queued = bool(waiting) and due is Due.IN_TURN
    notes = {
        name: _notes(child, origin, waits=component_of(child) in waiting)
        for name, child in desired.items()
        if not (queued and component_of(child) in waiting)
    }
    kept = keep_pods(rendered, owned, waiting, keep_notes=queued)
    noted = [
        with_annotations(child, notes[name_of(child)])
        if child["kind"] == "Deployment" and name_of(child) in notes
        else child
        for child in kept
    ]
    return Upgrade(noted, waiting, queued)


def without_records(changes: Iterable[ChildChange], owned: Sequence[Manifest]) -> list[ChildChange]:
    """Leave out updates of Deployments of which only the record is another: they are written when their turn comes."""
    existing = deployments(owned)
    return [change for change in changes if not _is_record(change, existing)]


def _is_record(change: ChildChange, existing: Mapping[str, Manifest]) -> bool:
    if change.action is not ChildAction.UPDATE or change.manifest["kind"] != "Deployment":
        return False
    before = existing[name_of(change.manifest)]
    record = {ANNOTATION_RENDERED: annotations_of(before).get(ANNOTATION_RENDERED, "")}
    return matches(before, with_annotations(change.manifest, record))


def _due(components: Sequence[tuple[Manifest | None, Manifest]], origin: RenderOrigin) -> Due:
    """Return when pods are replaced, by the Deployments as they exist and as they are rendered."""
    asked_for = any(_asked_for(before, after, origin) for before, after in components)
    if asked_for and any(_is_edited(before, after, origin) for before, after in components):
        return Due.AT_ONCE
    return Due.IN_TURN if asked_for or origin.automatic else Due.ON_CHANGE


def _asked_for(before: Manifest | None, after: Manifest, origin: RenderOrigin) -> bool:
    """Whether somebody has changed what the pods are rendered from, so that the newest template is wanted.

    Where the last version did not record it, only a change of the service itself can be seen.
    """
    if before is None:
        return True
    version, digest = _last_rendered(before)
    if digest == template_digest(after):
        return False
    inputs = annotations_of(before).get(ANNOTATION_INPUTS)
    if inputs is None:
        return origin.edited
    return version == origin.version or inputs != origin.inputs.every[component_of(after)]


def _is_edited(before: Manifest | None, after: Manifest, origin: RenderOrigin) -> bool:
    """Whether the service has changed since its pods got their template."""
    if before is None:
        return True
    own = annotations_of(before).get(ANNOTATION_OWN_INPUTS)
    return origin.edited if own is None else own != origin.inputs.own[component_of(after)]


def _last_rendered(deployment: Manifest) -> tuple[str, str]:
    """Return the version that has rendered the Deployment last, and the digest of its template, be it waiting."""
    annotations = annotations_of(deployment)
    if waiting := annotations.get(ANNOTATION_WAITING):
        version, _, digest = waiting.rpartition("/")
        return version, digest
    return annotations.get(ANNOTATION_VERSION, ""), annotations.get(ANNOTATION_TEMPLATE, "")


def _is_running(deployment: Manifest) -> bool:
    """Whether it has pods that serve, made by this operator: those of KServe's controller become ours at once."""
    ours = ANNOTATION_RENDERED in annotations_of(deployment)
    return ours and serves(deployment) and deployment["spec"].get("replicas", 1) > 0


def _waiting(before: Manifest, after: Manifest, origin: RenderOrigin, due: Due) -> WaitingTemplate:
    fields = tuple(map(str, differences(before["spec"]["template"], after["spec"]["template"])))
    since = annotations_of(before).get(ANNOTATION_VERSION, "")
    return WaitingTemplate(since, origin.version, fields, queued=due is Due.IN_TURN)


def _notes(rendered: Manifest, origin: RenderOrigin, *, waits: bool) -> Mapping[str, str]:
    """Return the annotations of a Deployment that say where its template comes from, or the one that waits."""
    kind = component_of(rendered)
    inputs = {
        ANNOTATION_INPUTS: origin.inputs.every[kind],
        ANNOTATION_OWN_INPUTS: origin.inputs.own[kind],
        ANNOTATION_SHARED_INPUTS: origin.inputs.shared,
    }
    if waits:
        return inputs | {ANNOTATION_WAITING: f"{origin.version}/{template_digest(rendered)}"}
    return inputs | {ANNOTATION_VERSION: origin.version}
