"""What differs between two versions of an object. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml

from isvc_operator.api.names import (
    ANNOTATION_INPUTS,
    ANNOTATION_OWN_INPUTS,
    ANNOTATION_RENDERED,
    ANNOTATION_SHARED_INPUTS,
    ANNOTATION_TEMPLATE,
    ANNOTATION_VERSION,
    ANNOTATION_WAITING,
)
from isvc_operator.manifests import LAST_APPLIED, NOT_WRITTEN, Manifest
from isvc_operator.plan.diff import Difference

# What the API server, controllers and the operator note for themselves.
_NOTES = frozenset(
    {
        LAST_APPLIED,
        "deployment.kubernetes.io/revision",
        ANNOTATION_INPUTS,
        ANNOTATION_OWN_INPUTS,
        ANNOTATION_RENDERED,
        ANNOTATION_SHARED_INPUTS,
        ANNOTATION_TEMPLATE,
        ANNOTATION_VERSION,
        ANNOTATION_WAITING,
    }
)


class Action(StrEnum):
    """What happens to an object."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Actor(StrEnum):
    """Who does it: whoever applies the file, or then the operator."""

    APPLY = "apply"
    OPERATOR = "operator"


@dataclass(frozen=True)
class Change:
    """An object that differs. ``lines`` are those of a unified diff, or ``! FIELD (now VALUE)``; no line breaks."""

    actor: Actor
    action: Action
    kind: str
    namespace: str
    name: str
    lines: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """Return the change as plain values."""
        return {
            "actor": self.actor.value,
            "action": self.action.value,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "diff": list(self.lines),
        }


def change_of(actor: Actor, before: Manifest | None, after: Manifest | None) -> Change | None:
    """Return what differs between two versions of an object, of which one may not exist; None if nothing does."""
    there = after or before
    if there is None:
        return None
    metadata = there["metadata"]
    place = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    lines = difflib.unified_diff(
        _text(before),
        _text(after),
        f"{there['kind']} {place} (now)" if before else "/dev/null",
        f"{there['kind']} {place} (after {actor})" if after else "/dev/null",
        lineterm="",
    )
    action = Action.CREATE if before is None else Action.DELETE if after is None else Action.UPDATE
    found = tuple(lines)
    if not found:
        return None
    return Change(actor, action, there["kind"], metadata.get("namespace") or "", metadata["name"], found)


def fields_changed(actor: Actor, live: Manifest, fields: Sequence[Difference]) -> Change | None:
    """Return a change of which only the fields are known; None if there are none, or only notes of the operator."""
    lines = tuple(
        f"! {it} (now {it.observed})"
        for it in fields
        if not any(isinstance(step, str) and step in _NOTES for step in it.path)
    )
    if not lines:
        return None
    metadata = live["metadata"]
    return Change(actor, Action.UPDATE, live["kind"], metadata.get("namespace") or "", metadata["name"], lines)


def _text(manifest: Manifest | None) -> list[str]:
    if manifest is None:
        return []
    text: str = yaml.safe_dump(_shown(manifest), sort_keys=True, allow_unicode=True, width=4096)
    return text.splitlines()


def _shown(manifest: Manifest) -> dict[str, Any]:
    """Return the object without what nobody writes: its status, and what the API server and controllers note."""
    metadata = {name: value for name, value in manifest["metadata"].items() if name not in NOT_WRITTEN}
    annotations = {
        name: value for name, value in (metadata.pop("annotations", None) or {}).items() if name not in _NOTES
    }
    if annotations:
        metadata["annotations"] = annotations
    shown = {name: value for name, value in manifest.items() if name != "status"}
    return {**shown, "metadata": metadata}


def merged(live: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with a JSON merge patch."""
    result = dict(live)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            known = result.get(name)
            result[name] = merged(known if isinstance(known, Mapping) else {}, value)
        else:
            result[name] = value
    return result
