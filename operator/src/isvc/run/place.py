"""Says where in the files something is that people have to look at. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from isvc.run.mistake import Mistake

# The path of a field at the beginning of a line about an object, or the name of an annotation or a label; of
# a component, if the line says so.
_FIELD: Final = re.compile(r"((?:metadata|spec)\.[^\s:,;]+)|(annotation|label) ([^\s:,;]+)(?: of (spec\.\w+))?")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A file, an object in it, and a field of the object; what is empty is not known."""

    file: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    field: str = ""


NOWHERE: Final = Place()


@dataclass(frozen=True)
class Located:
    """A line for people, where they have to look, and the mistake that the line ends with, if it is about one."""

    text: str
    place: Place = NOWHERE
    mistake: Mistake | None = None


def located(prefix: str, lines: Iterable[str], place: Place) -> list[Located]:
    """Return lines about an object behind a prefix, each with the field that it begins with."""
    return [Located(f"{prefix}{line}", replace(place, field=field_of(line))) for line in lines]


def refused(about: str, mistakes: Iterable[Mistake], place: Place) -> list[Located]:
    """Return lines about an object, each with the field that is wrong, unless that is one of its child."""
    named = [replace(mistake, about=about) for mistake in mistakes]
    return [Located(str(it), place if it.child else replace(place, field=field_of(it.path)), it) for it in named]


def field_of(line: str) -> str:
    """Return the field that a line about an object begins with; empty if it begins with none."""
    found = _FIELD.match(line)
    if found is None:
        return ""
    return found[1] or f"{found[4] or 'metadata'}.{found[2]}s[{found[3]}]"
