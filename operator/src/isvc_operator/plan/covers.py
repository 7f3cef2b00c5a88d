"""Whether an observed object still has every value that was rendered."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from isvc_operator.api.quantity import quantity

# Comparisons of two items, for each item of the observed list.
_COMPARISONS = 50


def covers(observed: Any, rendered: Any) -> bool:
    """Whether ``observed`` has every value of ``rendered``; it may have more (defaults, fields of other managers)."""
    if rendered is None or observed == rendered:
        return True
    if isinstance(rendered, Mapping):
        if not isinstance(observed, Mapping):
            return _is_zero(rendered) and observed is None
        return all(covers(observed.get(name), value) for name, value in rendered.items())
    if isinstance(rendered, list):
        return _covers_list(observed or [], rendered)
    return _same_value(observed, rendered)


def uncovered(observed: Any, rendered: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each rendered value that the observed object does not have.

    An item of a list is looked up by its name: ``spec.containers[kserve-container].image``.
    """
    if covers(observed, rendered):
        return
    if isinstance(observed, Mapping) and isinstance(rendered, Mapping):
        for name, value in rendered.items():
            yield from uncovered(observed.get(name), value, _inside(path, name))
    elif _are_named(observed) and _are_named(rendered):
        known = {item["name"]: item for item in observed}
        for item in rendered:
            yield from uncovered(known.get(item["name"]), item, f"{path}[{item['name']}]")
    else:
        yield path


def _inside(path: str, name: str) -> str:
    if "." in name or "/" in name:
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def _are_named(items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(item, Mapping) and item.get("name") for item in items)


def _covers_list(observed: Any, rendered: Sequence[Any]) -> bool:
    """Objects (containers, ports) may be among others and in any order; a list of strings (args) is one value."""
    if not isinstance(observed, list):
        return False
    if all(isinstance(item, Mapping) for item in rendered):
        return _covers_objects(observed, rendered)
    return len(observed) == len(rendered) and all(map(covers, observed, rendered))


def _covers_objects(observed: Sequence[Any], rendered: Sequence[Any]) -> bool:
    """Search each item from where the previous one was found, as most lists have the same order.

    The number of comparisons is limited. A list that exceeds it counts as different: applying it again does no harm.
    """
    found, count, left = 0, len(observed), _COMPARISONS * len(observed)
    for item in rendered:
        turned = (index % count for index in range(found, found + min(count, left)))
        at = next((index for index in turned if covers(observed[index], item)), None)
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
