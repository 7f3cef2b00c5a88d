"""Keeps the pods of running services when only the operator has changed: a newer version replaces none by itself.

Each Deployment records the version that has rendered its pod template, and a digest of what it was rendered from (the
inputs: service, runtime, configuration). So a reconcile can tell a change that somebody has made from one that came
with the operator. A template that waits is recorded by its digest, until somebody changes what the pods are made from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from isvc_operator.api.names import (
    ANNOTATION_INPUTS,
    ANNOTATION_RENDERED,
    ANNOTATION_TEMPLATE,
    ANNOTATION_VERSION,
    ANNOTATION_WAITING,
)
from isvc_operator.manifests import Manifest, annotations_of, name_of
from isvc_operator.observe.status import WaitingTemplate
from isvc_operator.plan.changes import template_digest
from isvc_operator.plan.covers import uncovered
from isvc_operator.plan.kept_pods import component_of, deployments, keep_pods, replaces_pods, serves, with_annotations


@dataclass(frozen=True)
class Origin:
    """What the pods of each component are rendered from, as digests, and by which version of the operator.

    ``edited``: the service has changed since its last reconcile. ``automatic``: its pods follow the operator's version.
    """

    inputs: Mapping[str, str]
    version: str
    edited: bool = False
    automatic: bool = False


@dataclass(frozen=True)
class Upgrade:
    """``children`` record where they come from, and are rendered with the pods that exist where a template waits.

    ``waiting`` has the components concerned.
    """

    children: Sequence[Manifest]
    waiting: Mapping[str, WaitingTemplate] = field(default_factory=dict)

    def queued(self) -> Upgrade:
        """Return the same, where the pods will be replaced in a while."""
        return replace(self, waiting={kind: replace(item, queued=True) for kind, item in self.waiting.items()})


def plan_upgrade(
    rendered: Sequence[Manifest], owned: Sequence[Manifest], origin: Origin, *, held_back: Collection[str] = ()
) -> Upgrade:
    """Keep the pods that would be replaced only because the operator is another version.

    A component that does not serve gets the newest template. When somebody has changed one component, all of a service
    do: they are rendered for one another. ``held_back`` are components whose pods are kept for another reason.
    """
    existing = deployments(owned)
    desired = {name: item for name, item in deployments(rendered).items() if component_of(item) not in held_back}
    asked_for = any(_asked_for(existing.get(name), child, origin) for name, child in desired.items())
    waiting: dict[str, WaitingTemplate] = {}
    for name, child in desired.items() if not (asked_for or origin.automatic) else ():
        if _is_running(existing[name]) and replaces_pods(existing[name], child):
            waiting[component_of(child)] = _waiting(existing[name], child, origin)
    notes = {name: _notes(child, origin, waits=component_of(child) in waiting) for name, child in desired.items()}
    kept = keep_pods(rendered, owned, waiting)
    return Upgrade([_noted(child, notes) for child in kept], waiting)


def _asked_for(before: Manifest | None, after: Manifest, origin: Origin) -> bool:
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
    return version == origin.version or inputs != origin.inputs[component_of(after)]


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


def _waiting(before: Manifest, after: Manifest, origin: Origin) -> WaitingTemplate:
    fields = uncovered(before["spec"]["template"], after["spec"]["template"])
    return WaitingTemplate(annotations_of(before).get(ANNOTATION_VERSION, ""), origin.version, tuple(fields))


def _notes(rendered: Manifest, origin: Origin, *, waits: bool) -> Mapping[str, str]:
    """Return the annotations of a Deployment that say where its template comes from, or the one that waits."""
    inputs = {ANNOTATION_INPUTS: origin.inputs[component_of(rendered)]}
    if waits:
        return inputs | {ANNOTATION_WAITING: f"{origin.version}/{template_digest(rendered)}"}
    return inputs | {ANNOTATION_VERSION: origin.version}


def _noted(child: Manifest, notes: Mapping[str, Mapping[str, str]]) -> Manifest:
    return with_annotations(child, notes.get(name_of(child), {})) if child["kind"] == "Deployment" else child
