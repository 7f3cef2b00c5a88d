"""Says what is wrong with a field of an object. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

# What pydantic says of a value of another type, and its words for two of ours.
_SHAPE: Final = re.compile(r"Input should be (?:a valid|an) (\w+)")
_TYPES: Final = {"list": "array", "dictionary": "object"}


class Fault(Enum):
    """What kind of mistake it is, where that decides what else is said of it."""

    REQUIRED = "required"
    EMPTY = "empty"
    TYPE = "type"
    UNKNOWN = "unknown"
    RULE = "rule"
    OTHER = "other"


@dataclass(frozen=True)
class Mistake:
    """A field for which the API server would refuse an object, and why; without a path, the object.

    ``wanted`` is the type that a value has to be of, or the path of the object that an unknown field belongs in.
    ``hint`` is what to write instead, if that is known. ``about`` is what people call the object; ``child`` is the one
    made of it that has the field, if it is not the object itself.
    """

    path: str
    what: str
    fault: Fault = Fault.OTHER
    wanted: str = ""
    hint: str = ""
    about: str = ""
    child: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.about, self.child, self.path, f"{self.what}{self.hint}")))


def missing(path: str) -> Mistake:
    """Return that a field is not there."""
    return Mistake(path, "Required value", Fault.REQUIRED)


def unknown(path: str, hint: str, wanted: str = "") -> Mistake:
    """Return that no field is called so."""
    return Mistake(path, "unknown field", Fault.UNKNOWN, wanted, hint)


def parsed(problem: str) -> Mistake:
    """Return what a line of ``InvalidObject.problems`` says, as it is said here."""
    path, head, what = problem.partition(": ")
    if not head:
        return Mistake("", problem)
    if what == "Field required":
        return missing(path)
    if shape := _SHAPE.fullmatch(what):
        wanted = _TYPES.get(shape[1], shape[1])
        return Mistake(path, f"must be of type {wanted}", Fault.TYPE, wanted)
    return Mistake(path, what)
