"""Parses custom resources, after their size was checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from isvc_operator.api.base import ApiModel, name_in
from isvc_operator.api.errors import InvalidObject
from isvc_operator.api.size import excess

Model = TypeVar("Model", bound=ApiModel)


def parse(model: type[Model], body: Mapping[str, Any]) -> Model:
    """Parse an object; raises InvalidObject with the invalid fields, or the place where it is too large."""
    if too_much := excess(body):
        raise InvalidObject(model.__name__, name_in(body), [too_much])
    try:
        return model.model_validate(body, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidObject.of(model.__name__, name_in(body), error) from error
