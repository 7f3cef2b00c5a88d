"""Parts of a pod that the operator reads have the types that they have in Kubernetes; others are passed on."""

from __future__ import annotations

from typing import Any

from isvc_operator.api.parsing import parse_inference_service


def in_predictor(**fields: Any) -> dict[str, Any]:
    parsed = parse_inference_service({"metadata": {"name": "a"}, "spec": {"predictor": fields}})
    return parsed.spec.predictor.as_dict()


def test_what_is_not_read_is_passed_on_as_it_came() -> None:
    container = {"zeta": [1, None, {"a": None}], "name": "a", "env": [{"name": "A", "value": None, "other": 1}], "b": 2}

    (kept,) = in_predictor(containers=[container])["containers"]

    assert list(kept.items()) == list(container.items())
