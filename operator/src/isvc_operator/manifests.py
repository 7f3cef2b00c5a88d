"""Kubernetes objects as the API server returns them: JSON that is read and never changed in place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Manifest = Mapping[str, Any]  # a whole object: apiVersion, kind, metadata, …
Pod = Manifest
Event = Manifest
Container = Mapping[str, Any]  # an item of a pod's containers or initContainers
Volume = Mapping[str, Any]  # an item of a pod's volumes
NamedItem = Mapping[str, Any]  # an environment variable, a volume or a volume mount

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # an annotation that repeats the object
# Fields of metadata.
SET_BY_SERVER = ("managedFields", "resourceVersion", "uid", "selfLink", "creationTimestamp", "generation")
NOT_WRITTEN = (*SET_BY_SERVER, "ownerReferences")  # by people


class ServiceKey(NamedTuple):
    """The identity of an InferenceService."""

    namespace: str
    name: str


def name_of(manifest: Manifest) -> str:
    name: str = manifest["metadata"]["name"]
    return name


def labels_of(manifest: Manifest) -> Mapping[str, str]:
    return manifest["metadata"].get("labels") or {}


def annotations_of(manifest: Manifest) -> Mapping[str, str]:
    return manifest["metadata"].get("annotations") or {}


def condition_of(manifest: Manifest, type_: str) -> Mapping[str, Any]:
    """Return a condition of the object's status; empty if it has none of the type."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item["type"] == type_), {})


def controller_of(manifest: Manifest) -> Mapping[str, Any]:
    """Return the owner reference of the object's controller; empty if it has none."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


def updated_by(manager: str, manifest: Manifest) -> list[Mapping[str, Any]]:
    """Return the entries of ``managedFields`` by which ``manager`` has fields that it has not applied.

    An apply never removes such a field, also if the same manager sends it.
    """
    return [
        entry
        for entry in manifest["metadata"].get("managedFields") or ()
        if entry.get("manager") == manager and entry.get("operation") == "Update" and not entry.get("subresource")
    ]


def merge_patch(applied: Mapping[str, Any], wanted: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7386) that ``kubectl apply`` sends for a custom resource.

    It sets what is ``wanted`` and ``live`` has otherwise, and removes what was ``applied`` last and is not wanted now.
    """
    patch: dict[str, Any] = {name: None for name in applied if name not in wanted and name in live}
    for name, value in wanted.items():
        known, before = live.get(name), applied.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            if inside := merge_patch(before if isinstance(before, Mapping) else {}, value, known):
                patch[name] = inside
        elif value != known:
            patch[name] = value
    return patch


def digest_of(value: Any) -> str:
    """Return a short digest of JSON; the order of fields does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def find(manifests: Iterable[Manifest], kind: str, name: str) -> Manifest | None:
    """Return the object of this kind and name, if it is among ``manifests``."""
    return next((item for item in manifests if item["kind"] == kind and name_of(item) == name), None)
