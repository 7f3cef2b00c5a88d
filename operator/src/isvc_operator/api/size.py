"""Limits the size of an object, checked before it is parsed, so that a single one cannot delay the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from isvc_operator.api.errors import path_of
from isvc_operator.limits import NESTING, VALUES


def excess(value: Any) -> str | None:
    """Return where a JSON value exceeds a limit, and which one; None if it is within the limits.

    A value with several references to it, as from YAML's anchors, counts once for each of them.
    """
    count = 0
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(value, ())]
    while waiting:
        parent, path = waiting.pop()
        if len(path) >= NESTING:
            return f"{path_of(path)}: nested deeper than {NESTING} levels"
        for key, child in _items(parent):
            count += 1
            if count > VALUES:
                return f"{path_of(path)}: with it there are more than {VALUES} values"
            if isinstance(child, Mapping | list) and child:
                waiting.append((child, (*path, key)))
    return None


def _items(parent: Any) -> Iterable[tuple[Any, Any]]:
    return parent.items() if isinstance(parent, Mapping) else enumerate(parent)
