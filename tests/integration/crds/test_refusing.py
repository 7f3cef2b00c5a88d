"""What the API server refuses, and what it says: which field, what is wrong, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from isvc.crds import RESOURCES, build_crd
from isvc.run.admission import refusals
from isvc_operator.api.schema import Schema
from tests.support.api_words import in_our_words
from tests.support.apiserver import ApiServer, Refused
from tests.support.kserves_leniency import REFUSED, TAKEN
from tests.support.refused_documents import BROKEN_RULES, WRONG_SHAPES
from tests.support.sample_services import model, service


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


# Documents that meet other parts of the schemas than the tables of refused documents.
OTHERS: dict[str, dict[str, Any]] = {
    "accepted": service("a", predictor=model()),
    "null": service("a", predictor=model() | {"minReplicas": None}),
    "null in a list": service("a", predictor=model(args=[None])),
    "no object": service("a", predictor="x"),
    "truth for a number": service("a", predictor=model() | {"minReplicas": True}),
    "half a pod": service("a", predictor=model() | {"minReplicas": 1.5}),
    "a pod, written with its fraction": service("a", predictor=model() | {"minReplicas": 1.0}),
    "a number among known texts": service("a", predictor=model() | {"scaleMetric": 3}),
    "neither number nor text": service(
        "a", predictor=model() | {"deploymentStrategy": {"rollingUpdate": {"maxSurge": True}}}
    ),
    "too long": service("a", predictor=model() | {"name": "b" * 64}),
    "too many": service("a", predictor=model() | {"containers": [{"name": "b"}] * 101}),
    "too few": service("a", predictor={"pytorch": {}, "storageUris": []}),
    "an empty text": service("a", predictor={"pytorch": {}, "storageUris": [{"uri": ""}]}),
    "a number as a label of the pods": service("a", predictor=model() | {"labels": {"a": 3}}),
    "a status, which is not created": service("a", predictor=model())
    | {"status": {"modelStatus": {"transitionStatus": "x"}}},
    "a name in capitals": service("A", predictor=model()),
    "labels and annotations": service("a", predictor=model())
    | {
        "metadata": {
            "name": "a",
            "labels": {"a b": "x", "c": "-y", "d": "z" * 64, "example.com/e": ""},
            "annotations": {"q w": "1", "/x": "2", "a/b/c": "3", "Example.com/D": "4", "e" * 64: "5"},
        }
    },
    "several problems": service("1st", predictor=model(name="x") | {"minReplicas": 3, "maxReplicas": 1}),
    "several problems of both kinds": service("1st", predictor=model(name="x") | {"minReplicas": -3, "name": "B"}),
}


def said_by(server: ApiServer, manifest: dict[str, Any]) -> list[str]:
    try:
        server.dry_run(manifest)
    except Refused as error:
        return [line.removeprefix("* ") for line in str(error).splitlines()[1:]]
    return []


SKIPPED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation"
)


def comparable(line: str) -> str:
    """The line without what is said here alone: of a problem of the metadata, and of a value that is nearly right."""
    found = re.match(r'metadata\.(name|labels|annotations): Invalid value: "[^"]*"', line)
    return found[0] if found else re.sub(r" \(did you mean \w+\?\)", "", line)


@pytest.mark.parametrize(
    "manifest",
    [
        *(case[0] for table in (BROKEN_RULES, WRONG_SHAPES, TAKEN, REFUSED) for case in table.values()),
        *OTHERS.values(),
    ],
    ids=[*BROKEN_RULES, *WRONG_SHAPES, *TAKEN, *REFUSED, *OTHERS],
)
def test_isvc_validate_says_what_the_api_server_says(apiserver: ApiServer, manifest: dict[str, Any]) -> None:
    ours = {comparable(str(mistake)) for mistake in refusals(manifest)}

    assert ours == {comparable(in_our_words(line)) for line in said_by(apiserver, manifest) if line != SKIPPED}
