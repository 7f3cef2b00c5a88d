"""The template forms that KServe's users write: ``{{ .Name }}`` in hosts, ``{{.Labels.x}}`` in containers.

KServe uses Go templates; this is their part that stands in real configuration: a field, or an entry of a map. Values
are put in as they are (KServe's HTML escaping of ``&`` and ``+`` breaks arguments). A missing label is empty text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from isvc_operator.api.base import ObjectMeta
from isvc_operator.errors import InvalidSpec
from isvc_operator.limits import FILLED_CHARACTERS

_FORM = re.compile(r"\{\{-?\s*\.([A-Za-z]+)(?:\.([A-Za-z0-9_./-]+?))?\s*-?\}\}")

Values = Mapping[str, str | Mapping[str, str]]


def values_of(metadata: ObjectMeta) -> Values:
    """The fields that a container's text may refer to."""
    return {
        "Name": metadata.name,
        "Namespace": metadata.namespace or "",
        "Labels": metadata.labels,
        "Annotations": metadata.annotations,
    }


def fill(text: str, values: Values) -> str:
    """Replace each form whose field is known; leave any other text alone."""
    return _Filling(values).fill(text)


def fill_all(value: Any, values: Values) -> Any:
    """``fill`` in every text of a JSON value. Raises InvalidSpec where that would make it too large."""
    return _Filling(values).fill_all(value)


class _Filling:
    """Counts what is put in: few forms of a long annotation can make any number of texts of it."""

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
        return _FORM.sub(self._replacement, text) if "{{" in text else text

    def _replacement(self, match: re.Match[str]) -> str:
        value = self._values.get(match[1])
        if isinstance(value, Mapping) and match[2] is not None:
            value = value.get(match[2], "")
        elif not isinstance(value, str) or match[2] is not None:
            return match[0]
        self._left -= len(value)
        if self._left < 0:
            raise InvalidSpec(
                f"placeholders such as {match[0]} would put in more than {FILLED_CHARACTERS} characters; use fewer of "
                "them, or shorter labels and annotations"
            )
        return value
