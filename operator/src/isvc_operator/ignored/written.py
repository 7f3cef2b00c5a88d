"""Where in a service a field of its pods is written. Pure.

The API server names fields of the Deployment that is rendered, and people know those of the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_IN_POD: Final = re.compile(r"spec\.template\.spec\.((?:c|initC)ontainers\[[^\]]+\](?:\.|$))?(.*)")
_INDEX: Final = re.compile(r"\[[^\]]*\]")


def fields_in_service(path: str, body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a service from which a field of a Deployment may have been made, with their values."""
    in_pod = _IN_POD.fullmatch(path)
    wanted = names_in(in_pod[2]) if in_pod else []
    depth = 3 if in_pod and in_pod[1] else 2  # spec.predictor.model, spec.predictor
    if wanted:
        found = _written(body.get("spec"), "spec")
        yield from ((place, value) for place, value in found if names_in(place)[depth:] == wanted)


def names_in(path: str) -> list[str]:
    """Return the names of a path, without the indexes and the keys of items."""
    return [name for name in _INDEX.sub("", path).split(".") if name]


def _written(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each field and item in a value with its path."""
    steps: dict[str, Any] = {}
    if isinstance(value, Mapping):
        steps = {f"{path}.{name}": item for name, item in value.items()}
    elif isinstance(value, list):
        steps = {f"{path}[{index}]": item for index, item in enumerate(value)}
    for step, item in steps.items():
        yield step, item
        yield from _written(item, step)
