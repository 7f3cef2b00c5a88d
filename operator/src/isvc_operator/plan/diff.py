"""The rendered values that an observed object does not have: whether there are any, which, and who manages them.

``matches`` is the fast answer to whether there are any. Paths are for messages, so they are made only when there are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from isvc_operator.api.core_shapes import quantity
from isvc_operator.api.names import FIELD_MANAGER
from isvc_operator.limits import NAMED
from isvc_operator.manifests import Manifest

# Comparisons of two items, for each item of the observed list.
_COMPARISONS = 50


def matches(observed: Any, rendered: Any) -> bool:
    """Whether ``observed`` has every value of ``rendered``; it may have more (defaults, fields of other managers)."""
    if rendered is None or observed == rendered:
        return True
    if isinstance(rendered, Mapping):
        if not isinstance(observed, Mapping):
            return _is_zero(rendered) and observed is None
        return all(matches(observed.get(name), value) for name, value in rendered.items())
    if isinstance(rendered, list):
        return _matches_list(observed or [], rendered)
    return _same_value(observed, rendered)


def _matches_list(observed: Any, rendered: Sequence[Any]) -> bool:
    """Objects (containers, ports) may be among others and in any order; a list of strings (args) is one value."""
    if not isinstance(observed, list):
        return False
    if all(isinstance(item, Mapping) for item in rendered):
        return _matches_objects(observed, rendered)
    return len(observed) == len(rendered) and all(map(matches, observed, rendered))


def _matches_objects(observed: Sequence[Any], rendered: Sequence[Any]) -> bool:
    """Search each item from where the previous one was found, as most lists have the same order.

    The number of comparisons is limited. A list that exceeds it counts as different: applying it again does no harm.
    """
    found, count, left = 0, len(observed), _COMPARISONS * len(observed)
    for item in rendered:
        turned = (index % count for index in range(found, found + min(count, left)))
        at = next((index for index in turned if matches(observed[index], item)), None)
        if at is None:
            return False
        left -= (at - found) % count + 1
        found = at + 1
    return True


def _same_value(observed: Any, rendered: Any) -> bool:
    """Whether two values that are written differently are one: 500m is 0.5.

    Of millionths and billionths of a resource, Kubernetes stores thousandths, and rounds up.
    """
    if observed is None and _is_zero(rendered):
        return True
    left, right = quantity(observed), quantity(rendered)
    if left is None or right is None:
        return False
    return left == right or (str(rendered).endswith(("u", "n")) and left * 1000 == math.ceil(right * 1000))


def _is_zero(value: Any) -> bool:
    """Whether the API server leaves the value out of an object, so that rendering it is the same as leaving it out."""
    return value in (None, "", 0, False) or value == {} or value == []


# A field's name, or the rendered item of a list.
Step = str | Mapping[str, Any]
Path = tuple[Step, ...]

# The first of these that an item has identifies it in its list: a container port has a name, but may lack it.
_IDENTITIES = ("mountPath", "containerPort", "port", "uid", "name", "key", "type")
# Who writes here observes the object. It is not a wish of what the object should be.
_STATUS = "status"


@dataclass(frozen=True)
class Difference:
    """A rendered field that has another value, or does not exist. ``observed`` is its value as JSON, `null` if none."""

    path: Path
    observed: str

    def __str__(self) -> str:
        return _text_of(self.path)


def differences(observed: Manifest | None, rendered: Manifest) -> tuple[Difference, ...]:
    """Return the first fields of ``rendered`` that ``observed`` does not have; empty if it matches them all."""
    return tuple(islice(_differences(observed, rendered, ()), NAMED))


def _differences(observed: Any, rendered: Any, path: Path) -> Iterator[Difference]:
    if matches(observed, rendered):
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
