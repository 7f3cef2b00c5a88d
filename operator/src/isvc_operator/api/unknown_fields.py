"""Finds unknown fields, which are usually misspelled. As with KServe, they are accepted and kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from isvc_operator.api.base import ApiModel, field_names
from isvc_operator.api.components import ExplainerSpec, PredictorSpec, TransformerSpec
from isvc_operator.api.core_fields import ContainerFields
from isvc_operator.api.inference_service import KIND, InferenceService, InferenceServiceSpec
from isvc_operator.api.names import EXPLAINER, PREDICTOR, TRANSFORMER
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.limits import NAMED
from isvc_operator.text import one_line

_LONGEST = 63  # characters; no known name is longer
_COMPONENTS = {PREDICTOR: PredictorSpec, TRANSFORMER: TransformerSpec, EXPLAINER: ExplainerSpec}
_CONTAINERS = frozenset({"container", "containers", "initContainers"})


def unknown_fields(resource: InferenceService | ServingRuntime | ClusterStorageContainer) -> list[str]:
    """Return the first unknown fields of the spec, such as `spec.predictr (did you mean predictor?)`."""
    found = list(islice(_in_model(resource.spec, "spec"), NAMED + 1))
    return found if len(found) <= NAMED else [*found[:NAMED], "and others"]


def unknown_names(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the unknown fields of a service's spec and of its components, of a body that may not be valid.

    A component or a model whose name is misspelt is missing, which is all that the API server says.
    """
    spec = body.get("spec")
    if body.get("kind") != KIND or not isinstance(spec, Mapping):
        return
    yield from _not_in(field_names(InferenceServiceSpec), spec, "spec")
    for name, component in _COMPONENTS.items():
        if isinstance(given := spec.get(name), Mapping):
            yield from _not_in(field_names(component), given, f"spec.{name}")


def _in_model(model: ApiModel, path: str) -> Iterator[str]:
    names = field_names(type(model))
    yield from _not_in(names, model.model_extra or {}, path)
    for name, attribute in names.items():
        yield from _in_value(getattr(model, attribute), name, f"{path}.{name}")


def _in_value(value: Any, name: str, path: str) -> Iterator[str]:
    if isinstance(value, ApiModel):
        yield from _in_model(value, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _in_value(item, name, f"{path}[{index}]")
    elif isinstance(value, Mapping) and name in _CONTAINERS:
        yield from _not_in(field_names(ContainerFields), value, path)


def _not_in(known: Collection[str], given: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in given:
        if name not in known:
            yield f"{path}.{one_line(name)}{suggestion(name, known)}"


def suggestion(name: str, known: Collection[str]) -> str:
    """Return `` (did you mean x?)`` for a name that is nearly a known one, else an empty text."""
    if len(name) > _LONGEST:
        return ""
    spelling = {candidate.lower(): candidate for candidate in known}
    near = get_close_matches(name.lower(), spelling, n=1)
    return f" (did you mean {spelling[near[0]]}?)" if near else ""
