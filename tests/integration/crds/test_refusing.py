"""What the API server refuses, and what it says: which field, what is wrong, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from isvc_operator.api.crd import RESOURCES, build_crd
from isvc_operator.api.schema import Schema
from tests.support.apiserver import ApiServer, Refused
from tests.support.refused_documents import BROKEN_RULES, WRONG_SHAPES


def refusal(server: ApiServer, manifest: dict[str, Any]) -> str:
    with pytest.raises(Refused) as caught:
        server.dry_run(manifest)
    return str(caught.value)


def rules_in(schema: Schema) -> Iterator[str]:
    """The message of every rule in the schema."""
    yield from (rule["message"] for rule in schema.get("x-kubernetes-validations", []))
    for inner in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if inner:
            yield from rules_in(inner)


@pytest.mark.parametrize(("manifest", "path", "message"), BROKEN_RULES.values(), ids=BROKEN_RULES)
def test_a_broken_rule_is_named_with_its_place(
    apiserver: ApiServer, manifest: dict[str, Any], path: str, message: str
) -> None:
    said = refusal(apiserver, manifest)
    assert f" {path}: Invalid value: " in said
    assert message in said


def test_no_rule_goes_without_a_case() -> None:
    schemas = [build_crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for resource in RESOURCES]
    rules = {message for schema in schemas for message in rules_in(schema)}
    tried = [said for _, _, said in BROKEN_RULES.values()]
    assert {rule for rule in rules if not any(said in rule or rule in said for said in tried)} == set()


@pytest.mark.parametrize(("manifest", "message"), WRONG_SHAPES.values(), ids=WRONG_SHAPES)
def test_a_wrong_shape_is_named_with_its_place(apiserver: ApiServer, manifest: dict[str, Any], message: str) -> None:
    assert message in refusal(apiserver, manifest)
