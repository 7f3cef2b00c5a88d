"""Parses custom resources. An object's size is limited before, so that a single one cannot delay the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from isvc_operator.api.base import ApiModel, name_in
from isvc_operator.api.errors import InvalidObject, path_of
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.serving_runtime import CLUSTER_KIND, ClusterServingRuntime, ServingRuntime
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.limits import NESTING, VALUES

Model = TypeVar("Model", bound=ApiModel)


def _parse(model: type[Model], body: Mapping[str, Any]) -> Model:
    """Parse an object; raises InvalidObject with the invalid fields, or the place where it is too large."""
    if too_much := excess(body):
        raise InvalidObject(model.__name__, name_in(body), [too_much])
    try:
        return model.model_validate(body, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidObject.of(model.__name__, name_in(body), error) from error


def parse_inference_service(body: Mapping[str, Any]) -> InferenceService:
    """Parse a service; raises InvalidObject with the invalid fields."""
    return _parse(InferenceService, body)


def parse_serving_runtime(body: Mapping[str, Any]) -> ServingRuntime:
    """Parse a runtime of either kind; raises InvalidObject with the invalid fields."""
    return _parse(ClusterServingRuntime if body.get("kind") == CLUSTER_KIND else ServingRuntime, body)


def parse_storage_container(body: Mapping[str, Any]) -> ClusterStorageContainer:
    """Parse a storage container; raises InvalidObject with the invalid fields."""
    return _parse(ClusterStorageContainer, body)


def excess(value: Any) -> str | None:
    """Return where a JSON value exceeds a limit, and which one; None if it is within the limits.

    A value with several references to it, as from YAML's anchors, counts once for each of them.
    """
    count = 0
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(value, ())]
    while waiting:
        parent, path = waiting.pop()
        if len(path) >= NESTING:
            return f"{path_of(path)}: nested deeper than {NESTING} levels"
        for key, child in parent.items() if isinstance(parent, Mapping) else enumerate(parent):
            count += 1
            if count > VALUES:
                return f"{path_of(path)}: with it there are more than {VALUES} values"
            if isinstance(child, Mapping | list) and child:
                waiting.append((child, (*path, key)))
    return None
