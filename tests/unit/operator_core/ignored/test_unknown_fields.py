"""Unknown fields are found wherever the names are known, and reported with the most similar one."""

from __future__ import annotations

from typing import Any

import pytest

from isvc.run.documents import unknown_names


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"predictr": {}}, ["spec.predictr (did you mean predictor?)"]),
        ({"predictor": {"modle": {}}}, ["spec.predictor.modle (did you mean model?)"]),
        ({"predictor": {}, "explainer": {"container": []}}, ["spec.explainer.container (did you mean containers?)"]),
        ({"predictor": {"model": {"modle": 1}}}, []),
        ({"predictor": 5}, []),
        (None, []),
    ],
)
def test_a_misspelt_component_or_model_is_found_in_a_service_that_is_not_valid(spec: Any, found: list[str]) -> None:
    unknown = unknown_names({"kind": "InferenceService", "spec": spec})

    assert [f"{mistake.path}{mistake.hint}" for mistake in unknown] == found
