"""The template forms that KServe's users write: ``{{ .Name }}`` in hosts, ``{{.Labels.x}}`` in containers.

KServe uses Go templates; this is their part that stands in real configuration: a field, or an entry of a map. Values
are put in as they are (KServe's HTML escaping of ``&`` and ``+`` breaks arguments). A missing label is empty text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from isvc_operator.api.base import ObjectMeta

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

    def replacement(match: re.Match[str]) -> str:
        value = values.get(match[1])
        if isinstance(value, str) and match[2] is None:
            return value
        if isinstance(value, Mapping) and match[2] is not None:
            return value.get(match[2], "")
        return match[0]

    return _FORM.sub(replacement, text)


def fill_all(value: Any, values: Values) -> Any:
    """``fill`` in every text of a JSON value."""
    if isinstance(value, str):
        return fill(value, values)
    if isinstance(value, Mapping):
        return {name: fill_all(item, values) for name, item in value.items()}
    if isinstance(value, list):
        return [fill_all(item, values) for item in value]
    return value
