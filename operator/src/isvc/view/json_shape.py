"""The JSON of what is seen: fields in camelCase, values of enums as texts.

Lists and objects are always there, so that programs can loop over them; single values that are not known are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

_UNKNOWN: tuple[Any, ...] = (None, "")


def as_json(value: Any) -> Any:
    """Return a dataclass, or a list of such, as JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {_camel(name): as_json(item) for name, item in fields if item not in _UNKNOWN}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(name): as_json(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [as_json(item) for item in value]
    return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
