"""The placeholders that KServe's users write: ``{{ .Name }}``, ``{{.Labels.x}}``, ``{{ index .Labels "x" }}``.

KServe uses Go templates. Existing configurations use only these forms of them, a field and an entry of a map; jinja2
has another syntax for both. Values are inserted unchanged (KServe's HTML escaping of ``&`` and ``+`` breaks arguments).
A missing label is an empty string. Text in quotes, as in ``{{ "{{" }}``, is inserted without the quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from isvc_operator.api.base import ObjectMeta
from isvc_operator.errors import InvalidSpec
from isvc_operator.limits import FILLED_CHARACTERS
from isvc_operator.manifests import Container
from isvc_operator.text import one_line

_SHOWN = 80  # bytes of a template, in a message

_PLACEHOLDER = re.compile(
    r"""\{\{-?\s*
    (?: \.(?P<field>[A-Za-z]+) (?:\.(?P<entry>[A-Za-z0-9_./-]+?))?
      | index\s+\.(?P<map>[A-Za-z]+)\s+(?: "(?P<quoted>[^"\\{}]*)" | `(?P<raw>[^`{}]*)` )
    )\s*-?\}\}""",
    re.VERBOSE,
)

# Where Go templates are expected, braces that are not placeholders are text in quotes, or an error.
_ACTION = re.compile(
    rf"""{_PLACEHOLDER.pattern}
    | \{{\{{-?\s* (?: "(?P<literal>[^"\\]*)" | `(?P<raw_literal>[^`]*)` ) \s*-?\}}\}}
    | (?P<odd> \{{\{{ .*? (?: \}}\}} | \Z ) )
    """,
    re.VERBOSE | re.DOTALL,
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
    filled: str = _Filling(values).fill_all(text)
    return filled


def fill_all(value: Any, values: Values) -> Any:
    """Apply ``fill`` to every string of a JSON value; raises InvalidSpec if that would make it too large."""
    return _Filling(values).fill_all(value)


def fill_container(container: Container, values: Values) -> dict[str, Any]:
    """Apply ``fill`` to a container that KServe reads as a Go template; raises InvalidSpec for any other template."""
    filling = _Filling(values, strict=True)
    filled: dict[str, Any] = {}
    for name, value in container.items():
        try:
            filled[name] = filling.fill_all(value)
        except _NotSupported as error:
            raise InvalidSpec(
                f"{name} of container {container.get('name')} contains {one_line(error.text, _SHOWN)}, which is not "
                "supported. Write {{.Name}}, {{.Namespace}}, {{.Labels.NAME}}, {{.Annotations.NAME}} or "
                '{{ index .Labels "NAME" }}; for braces themselves, write {{ "{{" }}'
            ) from None
    return filled


class _NotSupported(Exception):
    """A template that is not a placeholder."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class _Filling:
    """Replaces placeholders and counts the inserted characters: a long annotation may be inserted many times."""

    def __init__(self, values: Values, *, strict: bool = False) -> None:
        self._values = values
        self._left = FILLED_CHARACTERS
        self._pattern, self._replace = (_ACTION, self._replaced) if strict else (_PLACEHOLDER, self._replacement)

    def fill_all(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._pattern.sub(self._replace, value) if "{{" in value else value
        if isinstance(value, Mapping):
            return {name: self.fill_all(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.fill_all(item) for item in value]
        return value

    def _replaced(self, match: re.Match[str]) -> str:
        """Return the replacement of any template; raises _NotSupported for one that has none."""
        literal = next((match[name] for name in ("literal", "raw_literal") if match[name] is not None), None)
        found = self._value(match) if literal is None else literal
        if found is None:
            raise _NotSupported(match[0])
        return found

    def _replacement(self, match: re.Match[str]) -> str:
        found = self._value(match)
        return match[0] if found is None else found

    def _value(self, match: re.Match[str]) -> str | None:
        """Return the value of a placeholder; None if its field is not known."""
        value = self._values.get(match["field"] or match["map"] or "")
        entry = next((match[name] for name in ("entry", "quoted", "raw") if match[name] is not None), None)
        if isinstance(value, Mapping) and entry is not None:
            value = value.get(entry, "")
        elif not isinstance(value, str) or entry is not None:
            return None
        self._left -= len(value)
        if self._left < 0:
            raise InvalidSpec(
                f"placeholders such as {match[0]} would insert more than {FILLED_CHARACTERS} characters; use fewer of "
                "them, or shorter labels and annotations"
            )
        return value
