"""The paths of the Ingress that no golden shows (docs/kserve.md)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.builders import a_service, the_children

# What ingress-nginx accepts in paths of the types Exact and Prefix with strict validation.
STRICT = re.compile(r"/[A-Za-z0-9/_-]*")


@pytest.mark.parametrize("model", ["income", "densenet161-v1.2"])
def test_a_path_that_strict_controllers_refuse_is_left_to_their_own_reading(model: str) -> None:
    explainer = {"containers": [{"image": "e", "args": [f"--model_name={model}"]}]}

    rules: list[dict[str, Any]] = the_children(a_service(spec={"explainer": explainer}))["Ingress"]["spec"]["rules"]

    paths = [path for rule in rules for path in rule["http"]["paths"]]
    assert {path["path"] for path in paths if path["pathType"] == "ImplementationSpecific"} == {
        f"/v1/models/{model}:explain"
    }
    assert all(STRICT.fullmatch(path["path"]) for path in paths if path["pathType"] != "ImplementationSpecific")
