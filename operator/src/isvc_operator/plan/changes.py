"""The changes that turn the observed children into what was rendered: create or apply what differs, delete the rest.

A child differs if the digest in its annotation is not the digest of what is rendered now, or if a field that we set
has another value, because someone edited it by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from isvc_operator.api.kinds import AUTOSCALERS
from isvc_operator.api.names import (
    ANNOTATION_HANDOVER,
    ANNOTATION_RENDERED,
    ANNOTATION_TEMPLATE,
    FIELD_MANAGER,
    FINALIZER_KSERVE,
    LABEL_COMPONENT,
)
from isvc_operator.manifests import Manifest, annotations_of, controller_of, digest_of, labels_of, name_of, updated_by
from isvc_operator.plan.diff import matches

# The fields of an autoscaler that bound the number of pods.
_BOUNDS = (("minReplicas", "maxReplicas"), ("minReplicaCount", "maxReplicaCount"))
_ALL_NEW_FIRST = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}}


class ChildAction(Enum):
    """What is done with a child."""

    CREATE = auto()  # never by force: an object of that name may belong to someone else
    UPDATE = auto()  # applied with force: the service owns it; the uid protects another one that has its name by now
    DELETE = auto()


@dataclass(frozen=True)
class ChildChange:
    """One write to a child.

    ``adopts``: the child exists, or may exist, with fields that an apply would not remove: KServe's controller has
    created it, or this operator has, and has not applied it yet. ``frees_replicas``: the number of pods is no
    longer rendered, and must not change when the operator releases that field. ``starts_with``: the number of pods of a
    Deployment that is created, and then left to an autoscaler.
    """

    action: ChildAction
    manifest: Manifest
    adopts: bool = False
    frees_replicas: bool = False
    starts_with: int | None = None

    @property
    def deletes(self) -> bool:
        return self.action is ChildAction.DELETE

    @property
    def goes_first(self) -> bool:
        """Whether the other changes have to wait: KEDA refuses a Deployment that another autoscaler scales."""
        return self.deletes and self.manifest["kind"] in AUTOSCALERS


def plan_changes(
    rendered: Sequence[Manifest],
    observed: Iterable[Manifest],
    owner_uid: str,
    *,
    managed_by_kserve: bool = False,
) -> list[ChildChange]:
    """Return the changes that turn ``observed`` into ``rendered``; empty if nothing differs.

    A child that ``owner_uid`` does not own is never deleted, and never overwritten by force. ``managed_by_kserve``:
    KServe's controller has managed the service, and may have created more than is observed.
    """
    own = (child for child in observed if controller_of(child).get("uid") == owner_uid)
    owned = {(child["kind"], name_of(child)): child for child in own}
    changes = []
    for child in rendered:
        known = owned.pop((child["kind"], name_of(child)), None)
        manifest = _with_digests(_handed_over(child, known) if known else child)
        if known is None:
            size = starting_size(manifest, rendered, owned.values())
            changes.append(ChildChange(ChildAction.CREATE, manifest, adopts=managed_by_kserve, starts_with=size))
        elif not matches(known, manifest):
            changes.append(_update(manifest, known))
    # One that is being deleted exists until other controllers have removed their finalizers.
    left = (child for child in owned.values() if "deletionTimestamp" not in child["metadata"])
    return [*changes, *(ChildChange(ChildAction.DELETE, child) for child in left)]


def _update(manifest: Manifest, known: Manifest) -> ChildChange:
    # Without a number the API server defaults to one pod.
    frees = "replicas" not in manifest.get("spec", {}) and known.get("spec", {}).get("replicas", 1) != 1
    manifest = {**manifest, "metadata": {**manifest["metadata"], "uid": known["metadata"]["uid"]}}
    return ChildChange(ChildAction.UPDATE, manifest, adopts=_is_adopted(known), frees_replicas=frees)


def _is_adopted(child: Manifest) -> bool:
    """Whether a child was created by KServe's controller (it lacks our annotation), or by us and not applied yet."""
    return ANNOTATION_RENDERED not in annotations_of(child) or bool(updated_by(FIELD_MANAGER, child))


def _handed_over(manifest: Manifest, known: Manifest) -> Manifest:
    """Let a Deployment that is handed over create every new pod before an old one ends."""
    if ANNOTATION_HANDOVER not in annotations_of(known):
        return manifest
    return {**manifest, "spec": {**manifest["spec"], "strategy": _ALL_NEW_FIRST}}


def template_digest(deployment: Manifest) -> str:
    return digest_of(deployment["spec"]["template"])


def _with_digests(manifest: Manifest) -> dict[str, Any]:
    annotations = dict(annotations_of(manifest))
    if manifest["kind"] == "Deployment" and "template" in manifest["spec"]:
        # A template that is kept as it exists comes with the digest of when it was rendered (``plan/kept_pods.py``).
        annotations.setdefault(ANNOTATION_TEMPLATE, template_digest(manifest))
    annotations[ANNOTATION_RENDERED] = digest_of(manifest)
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


def managed_by_kserve(service: Manifest) -> bool:
    """Whether KServe's controller has managed the service: it puts its finalizer on each one."""
    return FINALIZER_KSERVE in (service["metadata"].get("finalizers") or ())


def starting_size(manifest: Manifest, rendered: Sequence[Manifest], owned: Iterable[Manifest]) -> int | None:
    """Return the number of pods of a Deployment that is created; None for what is rendered, or else one pod.

    From then on an autoscaler sets that number. It raises the API server's default of one pod to its minimum only at
    its next look, up to 15 seconds later, and to what the load needs later still. A component that replaces another
    one starts with as many pods as that. ``owned`` are the service's own children as observed.
    """
    if manifest["kind"] != "Deployment":
        return None
    scalers = (child for child in rendered if child["kind"] in AUTOSCALERS and name_of(child) == name_of(manifest))
    scaler = next(scalers, None)
    if scaler is None:
        return None
    spec = scaler["spec"]
    minimum, maximum = next((spec[least], spec[most]) for least, most in _BOUNDS if least in spec)
    replaced = (child["spec"].get("replicas", 1) for child in owned if _is_same_component(child, manifest))
    size = min(max(1, minimum, *replaced), maximum)
    return size if size > 1 else None


def _is_same_component(child: Manifest, deployment: Manifest) -> bool:
    component = labels_of(deployment).get(LABEL_COMPONENT)
    return child["kind"] == "Deployment" and labels_of(child).get(LABEL_COMPONENT) == component
