"""How large an object may be: bounded before anything walks through it, so that no single one holds up the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from isvc_operator.api.errors import path_of
from isvc_operator.limits import NESTING, VALUES


def excess(value: Any) -> str | None:
    """What is too much in a JSON value, and where; None where it is within the bounds.

    A value that is referred to in several places, as by YAML's anchors, counts in each of them.
    """
    seen = 0
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(value, ())]
    while waiting:
        parent, path = waiting.pop()
        if len(path) >= NESTING:
            return f"{path_of(path)}: nested deeper than {NESTING} levels"
        for key, child in _items(parent):
            seen += 1
            if seen > VALUES:
                return f"{path_of(path)}: with it there are more than {VALUES} values"
            if isinstance(child, Mapping | list) and child:
                waiting.append((child, (*path, key)))
    return None


def _items(parent: Any) -> Iterable[tuple[Any, Any]]:
    return parent.items() if isinstance(parent, Mapping) else enumerate(parent)
