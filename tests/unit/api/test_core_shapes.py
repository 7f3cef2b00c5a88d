"""Parts of a pod that the operator reads have the types that they have in Kubernetes; others are passed on."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.api.parsing import InvalidObject, parse_inference_service


def in_predictor(**fields: Any) -> dict[str, Any]:
    parsed = parse_inference_service({"metadata": {"name": "a"}, "spec": {"predictor": fields}})
    return parsed.spec.predictor.as_dict()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"containers": [{"env": 5}]}, "containers[0].env: Input should be a valid list"),
        ({"containers": [{"env": [{}]}]}, "containers[0].env[0].name: Field required"),
        ({"containers": [{"env": ["A=1"]}]}, "containers[0].env[0]: Input should be an object"),
        ({"containers": [{"name": {}}]}, "containers[0].name: Input should be a valid string"),
        ({"containers": [{"image": 1}]}, "containers[0].image: Input should be a valid string"),
        ({"containers": [{"args": "--a"}]}, "containers[0].args: Input should be a valid list"),
        ({"containers": [{"ports": [{}]}]}, "containers[0].ports[0].containerPort: Field required"),
        (
            {"containers": [{"ports": [{"containerPort": "http"}]}]},
            "containers[0].ports[0].containerPort: Input should be a valid integer",
        ),
        (
            {"initContainers": [{"resources": {"limits": []}}]},
            "initContainers[0].resources.limits: Input should be an object",
        ),
        (
            {"containers": [{"lifecycle": {"preStop": {"sleep": 5}}}]},
            "containers[0].lifecycle.preStop.sleep: Input should be an object",
        ),
        ({"containers": [{"readinessProbe": []}]}, "containers[0].readinessProbe: Input should be an object"),
        ({"volumes": [{"name": []}]}, "volumes[0].name: Input should be a valid string"),
        (
            {"model": {"modelFormat": {"name": "a"}, "volumeMounts": [{"mountPath": 1}]}},
            "model.volumeMounts[0].mountPath: Input should be a valid string",
        ),
    ],
)
def test_another_type_is_named_with_its_place(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidObject) as raised:
        in_predictor(**fields)

    assert raised.value.problems == (f"spec.predictor.{problem}",)


def test_what_is_not_read_is_passed_on_as_it_came() -> None:
    container = {"zeta": [1, None, {"a": None}], "name": "a", "env": [{"name": "A", "value": None, "other": 1}], "b": 2}

    (kept,) = in_predictor(containers=[container])["containers"]

    assert list(kept.items()) == list(container.items())


def test_what_is_null_is_taken_for_absent() -> None:
    container = {"name": "a", "env": None, "resources": {"limits": None}, "lifecycle": {"preStop": None}, "ports": None}

    assert in_predictor(containers=[container])["containers"] == [container]
