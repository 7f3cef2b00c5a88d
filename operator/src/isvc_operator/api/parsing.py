"""Parses custom resources. An object's size is limited before, so that a single one cannot delay the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from isvc_operator.api.base import ApiModel, name_in
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.serving_runtime import CLUSTER_KIND, ClusterServingRuntime, ServingRuntime
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.limits import NAMED, NESTING, TEXT_BYTES, VALUES
from isvc_operator.text import one_line

# In an object that is kept without most of its content: why it is.
OMITTED: Final = "omitted"

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


Model = TypeVar("Model", bound=ApiModel)


def _parse(model: type[Model], body: Mapping[str, Any]) -> Model:
    """Parse an object; raises InvalidObject with the invalid fields, or the place where it is too large."""
    if too_much := body.get(OMITTED) or excess_of_object(body):
        raise InvalidObject(model.__name__, name_in(body), [too_much])
    try:
        return model.model_validate(body, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidObject.of(model.__name__, name_in(body), error) from error


def parse_inference_service(body: Mapping[str, Any]) -> InferenceService:
    return _parse(InferenceService, body)


def parse_serving_runtime(body: Mapping[str, Any]) -> ServingRuntime:
    """Parse a runtime of either kind; raises InvalidObject with the invalid fields."""
    return _parse(ClusterServingRuntime if body.get("kind") == CLUSTER_KIND else ServingRuntime, body)


def parse_storage_container(body: Mapping[str, Any]) -> ClusterStorageContainer:
    return _parse(ClusterStorageContainer, body)


def excess_of_object(body: Mapping[str, Any]) -> str | None:
    """Return where an object exceeds a limit, and which one.

    Its status counts by itself: what is written there about the object must not change what is said of it.
    """
    status = {"status": body.get("status")}
    return excess({name: value for name, value in body.items() if name != "status"}) or excess(status)


def excess(value: Any) -> str | None:
    """Return where a JSON value exceeds a limit, and which one; None if it is within the limits.

    A value with several references to it, as from YAML's anchors, counts once for each of them.
    """
    count = size = 0
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(value, ())]
    while waiting:
        parent, path = waiting.pop()
        if len(path) >= NESTING:
            return f"{path_of(path)}: nested deeper than {NESTING} levels"
        for key, child in parent.items() if isinstance(parent, Mapping) else enumerate(parent):
            count += 1
            if count > VALUES:
                return f"{path_of(path)}: with it there are more than {VALUES} values"
            size += sum(len(text.encode(errors="replace")) for text in (key, child) if isinstance(text, str))
            if size > TEXT_BYTES:
                return f"{path_of((*path, key))}: with it there are more than {TEXT_BYTES} bytes of text"
            if isinstance(child, Mapping | list) and child:
                waiting.append((child, (*path, key)))
    return None
