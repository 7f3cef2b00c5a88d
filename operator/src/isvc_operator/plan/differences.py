"""The rendered fields that an observed object does not have, each by its path, and who manages them.

``covers`` is the fast answer to whether there is one. Paths are for a message, so they are made only when there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from isvc_operator.api.names import FIELD_MANAGER
from isvc_operator.limits import NAMED
from isvc_operator.manifests import Manifest
from isvc_operator.plan.covers import covers

# A field's name, or the rendered item of a list.
Step = str | Mapping[str, Any]
Path = tuple[Step, ...]

# The first of these that an item has identifies it in its list: a container port has a name, but may lack it.
_IDENTITIES = ("mountPath", "containerPort", "port", "uid", "name", "key", "type")
# Who writes here observes the object. It is no wish of what the object should be.
_STATUS = "status"


@dataclass(frozen=True)
class Difference:
    """A rendered field that has another value, or does not exist. ``observed`` is its value as JSON, `null` if none."""

    path: Path
    observed: str

    def __str__(self) -> str:
        return _text_of(self.path)


def differences(observed: Manifest | None, rendered: Manifest) -> tuple[Difference, ...]:
    """Return the first fields of ``rendered`` that ``observed`` does not have; empty if it covers them all."""
    return tuple(islice(_differences(observed, rendered, ()), NAMED))


def _differences(observed: Any, rendered: Any, path: Path) -> Iterator[Difference]:
    if covers(observed, rendered):
        return
    if isinstance(observed, Mapping) and isinstance(rendered, Mapping):
        for name, value in rendered.items():
            yield from _differences(observed.get(name), value, (*path, name))
    elif _are_objects(observed) and _are_objects(rendered):
        items = {_identity(item, index): item for index, item in enumerate(observed)}
        pairs = [(items.get(_identity(item, index)), item) for index, item in enumerate(rendered)]
        inside = [found for known, item in pairs for found in _differences(known, item, (*path, item))]
        yield from inside or [Difference(path, _text(observed))]
    else:
        yield Difference(path, _text(observed))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _identity(item: Mapping[str, Any], index: int) -> object:
    return next((f"{name}={item[name]}" for name in _IDENTITIES if name in item), index)


def _text_of(path: Path) -> str:
    """Return the path as ``kubectl explain`` writes it, with the items of lists by what identifies them."""
    text = ""
    for step in path:
        if isinstance(step, str):
            simple = step.replace("_", "").replace("-", "").isalnum()
            text += f"{'.' if text else ''}{step}" if simple else f"[{step}]"
        else:
            text += f"[{next((step[name] for name in _IDENTITIES if name in step), '')}]"
    return text


def managers_of(live: Manifest, found: Sequence[Difference]) -> tuple[str, ...]:
    """Return the other managers of these fields, by ``managedFields`` of the live object.

    Nobody manages a field that was removed. If there is no manager at all, the last other client is returned.
    """
    others = [
        entry
        for entry in live["metadata"].get("managedFields") or ()
        if entry.get("manager") != FIELD_MANAGER and entry.get("subresource") != _STATUS
    ]
    named = [entry for entry in others if any(_manages(entry.get("fieldsV1") or {}, item.path) for item in found)]
    last = sorted(others, key=lambda entry: str(entry.get("time")))[-1:]
    return tuple(sorted({str(entry.get("manager")) for entry in named or last}))


def _manages(fields: Mapping[str, Any], path: Path) -> bool:
    """Whether a set of fields has this one, or one that contains it."""
    for step in path:
        inside = _inside(fields, step)
        if inside is None:
            return not fields  # an empty set is the whole value
        fields = inside
    return True


def _inside(fields: Mapping[str, Any], step: Step) -> Mapping[str, Any] | None:
    if isinstance(step, str):
        return fields.get(f"f:{step}")
    for name, inside in fields.items():
        if name.startswith("k:") and json.loads(name[2:]).items() <= {**_KEY_DEFAULTS, **step}.items():
            found: Mapping[str, Any] = inside
            return found
    return None


# What the API server adds to an item without it, where it is a part of the item's key.
_KEY_DEFAULTS = {"protocol": "TCP"}
