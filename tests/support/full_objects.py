"""Makes objects with every field that a model of the API has, each with a value other than its default."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

# By the path of the field, or by the end of it: values that have to fit together, or that are not just any text. The
# values of these two keys are for all others.
Values = Mapping[str, Any]
TEXT, NUMBER = "(text)", "(number)"


def full(model: type[BaseModel], values: Values, *, path: str = "", leave_out: frozenset[str] = frozenset()) -> Any:
    """Return an object with every field of the model, by their names in YAML, except those with a path to leave out."""
    made = {}
    for attribute, field in model.model_fields.items():
        name = field.alias or attribute
        inner = f"{path}.{name}".removeprefix(".")
        if inner not in leave_out:
            made[name] = _value(field.annotation, values, inner, leave_out)
    return made


def _value(annotation: Any, values: Values, path: str, leave_out: frozenset[str]) -> Any:
    for end in _ends(path):
        if end in values:
            return values[end]
    while get_origin(annotation) in (Annotated, Union, types.UnionType):
        annotation = next(item for item in get_args(annotation) if item is not type(None))
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return arguments[-1]
    if origin in (list, tuple):
        return [_value(arguments[0], values, f"{path}[]", leave_out)]
    if origin is dict:
        return {"example.org/key": values[TEXT]}
    if issubclass(annotation, BaseModel):
        return full(annotation, values, path=path, leave_out=leave_out)
    return {str: values[TEXT], int: values[NUMBER], bool: True}[annotation]


def _ends(path: str) -> list[str]:
    """Return the path and what is left of it without its first steps, the longest first."""
    steps = path.split(".")
    return [".".join(steps[at:]) for at in range(len(steps))]
