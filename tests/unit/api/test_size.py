"""An object is parsed only within the limits of depth and number."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.api.parsing import (
    InvalidObject,
    excess,
    parse_inference_service,
    parse_serving_runtime,
    parse_storage_container,
)
from isvc_operator.limits import NESTING, TEXT_BYTES, VALUES, VARIABLES


def nested(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return {"a": value}


def aliased(levels: int) -> dict[str, Any]:
    """A few lines expanded by YAML's anchors: each level refers to the previous one ten times."""
    value: Any = ["lol"] * 10
    for _ in range(levels):
        value = [value] * 10
    return {"a": value}


@pytest.mark.parametrize("value", [{}, nested(NESTING - 1), {"a": [1] * (VALUES - 1)}, {"a": list[int]()}])
def test_what_is_within_the_bounds_is_taken(value: dict[str, Any]) -> None:
    assert excess(value) is None


@pytest.mark.parametrize("levels", [NESTING, 100_000])
def test_what_is_nested_deeper_is_named_with_its_place(levels: int) -> None:
    place = ".".join("a" * NESTING)

    assert excess(nested(levels)) == f"{place}: nested deeper than {NESTING} levels"


def test_what_has_more_values_is_named_with_the_place_where_there_are_too_many() -> None:
    too_many = f"with it there are more than {VALUES} values"

    assert excess({"spec": {"a": 1, "list": [1] * VALUES}}) == f"spec.list: {too_many}"
    assert str(excess(aliased(12))).endswith(too_many)


@pytest.mark.parametrize("text", ["x" * TEXT_BYTES, "\u00e9" * (TEXT_BYTES // 2), "\ud800" * TEXT_BYTES])
def test_what_has_more_text_is_named_with_the_place_where_there_is_too_much(text: str) -> None:
    too_much = f"with it there are more than {TEXT_BYTES} bytes of text"

    assert excess({"spec": {"args": ["a", text]}}) == f"spec.args[1]: {too_much}"
    assert excess({"spec": {text: 1}}) == f"spec.{text}: {too_much}"
    assert str(excess({"a": [[text[:20_000]] * 100] * 100})).endswith(too_much)


@pytest.mark.parametrize(
    ("parse", "kind"),
    [
        (parse_inference_service, "InferenceService"),
        (parse_serving_runtime, "ServingRuntime"),
        (parse_storage_container, "ClusterStorageContainer"),
    ],
)
def test_an_object_that_is_too_large_is_not_valid(parse: Any, kind: str) -> None:
    with pytest.raises(InvalidObject, match=f"^{kind} a is not valid: spec.a.*: nested deeper than {NESTING} levels$"):
        parse({"kind": kind, "metadata": {"name": "a"}, "spec": nested(2000)})


def test_a_container_has_only_so_many_variables() -> None:
    env = [{"name": f"VARIABLE_{number}", "value": "v"} for number in range(VARIABLES + 1)]
    model = {"modelFormat": {"name": "pytorch"}, "env": env}
    body = {"metadata": {"name": "many", "namespace": "n"}, "spec": {"predictor": {"model": model}}}
    with pytest.raises(InvalidObject) as refused:
        parse_inference_service(body)
    place = "spec.predictor.model.env"
    beyond = f"List should have at most {VARIABLES} items after validation, not {VARIABLES + 1}"
    assert str(refused.value) == f"InferenceService many is not valid: {place}: {beyond}"
