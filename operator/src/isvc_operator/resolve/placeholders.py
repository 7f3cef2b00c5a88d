"""The placeholders that KServe's users write: ``{{ .Name }}``, ``{{.Labels.x}}``, ``{{ index .Labels "x" }}``.

KServe uses Go templates. Existing configurations use only these forms of them, a field and an entry of a map; jinja2
has another syntax for both. Values are inserted unchanged (KServe's HTML escaping of ``&`` and ``+`` breaks arguments).
A missing label is an empty string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from isvc_operator.api.base import ObjectMeta
from isvc_operator.errors import InvalidSpec
from isvc_operator.limits import FILLED_CHARACTERS

_PLACEHOLDER = re.compile(
    r"""\{\{-?\s*
    (?: \.(?P<field>[A-Za-z]+) (?:\.(?P<entry>[A-Za-z0-9_./-]+?))?
      | index\s+\.(?P<map>[A-Za-z]+)\s+(?: "(?P<quoted>[^"\\{}]*)" | `(?P<raw>[^`{}]*)` )
    )\s*-?\}\}""",
    re.VERBOSE,
)

Values = Mapping[str, str | Mapping[str, str]]


def values_of(metadata: ObjectMeta) -> Values:
    """Return the fields that a container may refer to."""
    return {
        "Name": metadata.name,
        "Namespace": metadata.namespace or "",
        "Labels": metadata.labels,
        "Annotations": metadata.annotations,
    }


def fill(text: str, values: Values) -> str:
    """Replace each placeholder whose field is known."""
    return _Filling(values).fill(text)


def fill_all(value: Any, values: Values) -> Any:
    """Apply ``fill`` to every string of a JSON value; raises InvalidSpec if that would make it too large."""
    return _Filling(values).fill_all(value)


class _Filling:
    """Replaces placeholders and counts the inserted characters: a long annotation may be inserted many times."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._left = FILLED_CHARACTERS

    def fill_all(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.fill(value)
        if isinstance(value, Mapping):
            return {name: self.fill_all(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.fill_all(item) for item in value]
        return value

    def fill(self, text: str) -> str:
        return _PLACEHOLDER.sub(self._replacement, text) if "{{" in text else text

    def _replacement(self, match: re.Match[str]) -> str:
        value = self._values.get(match["field"] or match["map"])
        entry = next((match[name] for name in ("entry", "quoted", "raw") if match[name] is not None), None)
        if isinstance(value, Mapping) and entry is not None:
            value = value.get(entry, "")
        elif not isinstance(value, str) or entry is not None:
            return match[0]
        self._left -= len(value)
        if self._left < 0:
            raise InvalidSpec(
                f"placeholders such as {match[0]} would insert more than {FILLED_CHARACTERS} characters; use fewer of "
                "them, or shorter labels and annotations"
            )
        return value
