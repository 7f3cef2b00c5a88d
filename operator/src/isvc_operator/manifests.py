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


def digest_of(value: Any) -> str:
    """Return a short digest of JSON; the order of fields does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def find(manifests: Iterable[Manifest], kind: str, name: str) -> Manifest | None:
    """Return the object of this kind and name, if it is among ``manifests``."""
    return next((item for item in manifests if item["kind"] == kind and name_of(item) == name), None)
