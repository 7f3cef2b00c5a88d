"""The error for an invalid object, with the path of each field that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from isvc_operator.limits import NAMED
from isvc_operator.text import one_line

# Pydantic's messages mention dictionaries and our classes, which the author of a YAML file does not know.
_PLAIN_MESSAGES: Final = {
    "model_type": "Input should be an object",
    "dict_type": "Input should be an object",
}


class InvalidObject(ValueError):
    """The object does not match the schema of its kind. `problems` are lines of `path: message`."""

    def __init__(self, kind: str, name: str, problems: Sequence[str]) -> None:
        super().__init__(f"{kind} {one_line(str(name)) or '(no name)'} is not valid: {'; '.join(problems)}")
        self.problems = tuple(problems)

    @classmethod
    def of(cls, kind: str, name: str, error: ValidationError) -> InvalidObject:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        problems = [one_line(_problem(detail)) for detail in details[:NAMED]]
        return cls(kind, name, problems if len(details) <= NAMED else [*problems, f"and {len(details) - NAMED} more"])


def _problem(detail: ErrorDetails) -> str:
    return f"{path_of(detail['loc'])}: {_PLAIN_MESSAGES.get(detail['type'], detail['msg'])}"


def path_of(location: Sequence[Any]) -> str:
    """Return keys and indexes as a path such as `spec.predictor.containers[0].name`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")
