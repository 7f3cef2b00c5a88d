"""What the API server refuses, and what it says: which field, what is wrong, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from isvc_operator.api.components import FRAMEWORKS
from isvc_operator.api.crd import RESOURCES, build_crd
from isvc_operator.api.schema import Schema
from tests.integration.crds.services import model, server_container, service
from tests.support.apiserver import ApiServer, Refused

BROKEN_RULES: dict[str, tuple[dict[str, Any], str, str]] = {
    "name with a digit first": (
        service("1st", predictor=model()),
        "metadata.name",
        "must start with a letter and contain only lower-case letters",
    ),
    "name with a dot": (service("a.b", predictor=model()), "metadata.name", "must start with a letter"),
    "name too long": (service("a" * 49, predictor=model()), "metadata.name", "than the 48 characters"),
    "name too long with the predictor's": (
        service("a" * 45, predictor={"name": "main"} | model()),
        "metadata.name",
        "than the 48 characters",
    ),
    "name too long for a transformer": (
        service("a" * 47, predictor=model(), transformer={"containers": [server_container()]}),
        "metadata.name",
        "longer than the 46 characters that the labels of a transformer's pods have room for",
    ),
    "nothing to serve": (service("a", predictor={}), "spec.predictor", "nothing to serve: give the predictor a model"),
    "empty containers": (service("a", predictor={"containers": []}), "spec.predictor", "nothing to serve"),
    "two frameworks": (
        service("a", predictor={"sklearn": {}, "pytorch": {}}),
        "spec.predictor",
        f"only one of {', '.join(FRAMEWORKS)} may be given",
    ),
    "model and server container": (
        service("a", predictor=model() | {"containers": [server_container()]}),
        "spec.predictor.containers",
        "a model and a container named kserve-container are both given; remove the model",
    ),
    "framework and server container": (
        service("a", predictor={"pytorch": {}, "containers": [server_container()]}),
        "spec.predictor.containers",
        "a model and a container named kserve-container are both given; remove the model",
    ),
    "storageUri and storageUris": (
        service("a", predictor=model() | {"storageUris": [{"uri": "s3://a/b"}]}),
        "spec.predictor.storageUris",
        "move storageUri into storageUris",
    ),
    "name on a model": (
        service("a", predictor=model(name="mine")),
        "spec.predictor.model.name",
        "name is not allowed here",
    ),
    "name on a framework": (
        service("a", predictor={"pytorch": {"name": "mine"}}),
        "spec.predictor.pytorch.name",
        "name is not allowed here",
    ),
    "storageUri and storage.path": (
        service("a", predictor=model(storage={"path": "b"})),
        "spec.predictor.model.storage",
        "storageUri and storage.path are both given; remove one of them",
    ),
    "root as a mount path": (
        service("a", predictor={"pytorch": {}, "storageUris": [{"uri": "s3://a/b", "mountPath": "/"}]}),
        "spec.predictor.storageUris[0].mountPath",
        "mountPath must be a folder below /",
    ),
    "mount path that climbs": (
        service("a", predictor={"pytorch": {}, "storageUris": [{"uri": "s3://a/b", "mountPath": "/a/../b"}]}),
        "spec.predictor.storageUris[0].mountPath",
        "mountPath must be a folder below /",
    ),
    "more at least than at most": (
        service("a", predictor=model() | {"minReplicas": 3, "maxReplicas": 2}),
        "spec.predictor.minReplicas",
        "minReplicas is greater than maxReplicas; raise maxReplicas or lower minReplicas",
    ),
    "more at least than at most in a transformer": (
        service(
            "a",
            predictor=model(),
            transformer={"minReplicas": 3, "maxReplicas": 2, "containers": [server_container()]},
        ),
        "spec.transformer.minReplicas",
        "minReplicas is greater than maxReplicas; raise maxReplicas or lower minReplicas",
    ),
    "transformer without a container": (
        service("a", predictor=model(), transformer={"minReplicas": 1}),
        "spec.transformer",
        "nothing to run: give the transformer a container with an image",
    ),
    "explainer without anything": (
        service("a", predictor=model(), explainer={}),
        "spec.explainer",
        "give the explainer either art or containers",
    ),
    "explainer with both": (
        service("a", predictor=model(), explainer={"art": {}, "containers": [server_container()]}),
        "spec.explainer",
        "give the explainer either art or containers",
    ),
    "two worker containers": (
        service("a", predictor=model() | {"workerSpec": {"containers": [{}, {}]}}),
        "spec.predictor.workerSpec.containers",
        "workerSpec may have only one container",
    ),
    "canaries with more than everything": (
        service(
            "a",
            predictor=model(),
            canary=[
                {"predictor": {"name": "b"} | model(), "trafficPercent": 60},
                {"predictor": {"name": "c"} | model(), "trafficPercent": 60},
            ],
        ),
        "spec.canary",
        "add up to more than 100",
    ),
    "canary without a name": (
        service("a", predictor=model(), canary=[{"predictor": model()}]),
        "spec.canary",
        "each canary needs a predictor.name of its own",
    ),
    "canary with the stable name": (
        service("a", predictor={"name": "b"} | model(), canary=[{"predictor": {"name": "b"} | model()}]),
        "spec.canary",
        "each canary needs a predictor.name of its own",
    ),
    "two canaries of one name": (
        service("a", predictor=model(), canary=[{"predictor": {"name": "b"} | model()}] * 2),
        "spec.canary",
        "each canary needs a predictor.name of its own",
    ),
    "canary that scales by itself": (
        service("a", predictor=model(), canary=[{"predictor": {"name": "b", "maxReplicas": 3} | model()}]),
        "spec.canary[0]",
        "a canary does not scale by itself",
    ),
}

WRONG_SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "no predictor": (service("a"), "spec.predictor: Required value"),
    "no model format": (
        service("a", predictor={"model": {"storageUri": "pvc://a"}}),
        "spec.predictor.model.modelFormat: Required value",
    ),
    "text for a number": (
        service("a", predictor=model() | {"minReplicas": "1"}),
        'spec.predictor.minReplicas: Invalid value: "string"',
    ),
    "a number below zero": (
        service("a", predictor=model() | {"containerConcurrency": -1}),
        "spec.predictor.containerConcurrency: Invalid value: -1",
    ),
    "an unknown metric": (
        service("a", predictor=model() | {"scaleMetric": "latency"}),
        'spec.predictor.scaleMetric: Unsupported value: "latency"',
    ),
    "an unknown logger mode": (
        service("a", predictor=model() | {"logger": {"mode": "some"}}),
        'spec.predictor.logger.mode: Unsupported value: "some"',
    ),
    "a logger without a mode": (
        service("a", predictor=model() | {"logger": {"url": "http://a"}}),
        "spec.predictor.logger.mode: Required value",
    ),
    "a predictor name in capitals": (
        service("a", predictor=model() | {"name": "Main"}),
        "spec.predictor.name: Invalid value",
    ),
    "more canary traffic than all": (
        service("a", predictor=model() | {"canaryTrafficPercent": 101}),
        "spec.predictor.canaryTrafficPercent: Invalid value: 101",
    ),
}


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
    assert {rule for rule in rules if not any(said in rule for _, _, said in BROKEN_RULES.values())} == set()


@pytest.mark.parametrize(("manifest", "message"), WRONG_SHAPES.values(), ids=WRONG_SHAPES)
def test_a_wrong_shape_is_named_with_its_place(apiserver: ApiServer, manifest: dict[str, Any], message: str) -> None:
    assert message in refusal(apiserver, manifest)
