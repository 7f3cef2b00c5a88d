"""`isvc validate` takes and refuses what KServe's API does with its webhook, and the children have quantities."""

from __future__ import annotations

import json
from typing import Any

import pytest

from isvc.run.check import Severity
from isvc_operator.api.names import ANNOTATION_STORAGE_RESOURCES
from tests.support.kserves_leniency import REFUSED, TAKEN, of_model, own, predictor
from tests.support.rendered import checked, checked_text, children_of

Document = dict[str, Any]


@pytest.mark.parametrize(("document", "_what_kserve_does"), TAKEN.values(), ids=TAKEN)
def test_what_kserve_takes_is_taken(document: Document, _what_kserve_does: str) -> None:
    assert checked(document).texts(Severity.ERROR) == []


@pytest.mark.parametrize(("document", "place", "said"), REFUSED.values(), ids=REFUSED)
def test_what_kserve_refuses_is_refused_with_its_place(document: Document, place: str, said: str) -> None:
    errors = checked(document).texts(Severity.ERROR)
    assert [said in error for error in errors if f" {document['metadata']['name']}: {place}: " in error] == [True]


def pod(document: Document) -> Any:
    return children_of(document)[0]["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("written", "made"),
    [
        ("0.5", "500m"),
        ("0.1", "100m"),
        ("1.5e0", "1500m"),
        (".25", "250m"),
        ("1.5", "1500m"),
        ("0.0001", "100u"),
        ("0.00000000001", "1n"),
        ("2", 2),
        ("2.0", 2),
        ("2e0", 2),
        ('"0.5"', "0.5"),
        ('"1.5e0"', "1.5e0"),
        ("500m", "500m"),
    ],
)
def test_a_number_is_made_the_text_that_kubernetes_stores(written: str, made: Any) -> None:
    text = json.dumps(of_model(resources={"limits": {"cpu": "(amount)"}})).replace('"(amount)"', written)
    (rendered,) = checked_text(text).rendered
    (container,) = rendered.children[0]["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["cpu"] == made


def test_every_quantity_of_a_pod_is_made_a_text() -> None:
    variable = {"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": 0.001}}}
    half = {"limits": {"cpu": 0.5}}
    document = own(resources=half, env=[variable])
    document["spec"]["predictor"] |= {
        "resources": {"limits": {"cpu": 1.5}},
        "overhead": {"cpu": 0.25},
        "volumes": [{"name": "b", "emptyDir": {"sizeLimit": 0.5}}],
    }
    made = pod(document)
    (container,) = made["containers"]
    assert container["resources"]["limits"]["cpu"] == "500m"
    assert (
        variable | {"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}} in container["env"]
    )
    assert (made["resources"], made["overhead"]) == ({"limits": {"cpu": "1500m"}}, {"cpu": "250m"})
    assert made["volumes"][0] == {"name": "b", "emptyDir": {"sizeLimit": "500m"}}


def test_a_tolerance_is_made_a_text_which_kedas_crd_takes() -> None:
    document = predictor(minReplicas=1, maxReplicas=2, autoScaling={"behavior": {"scaleUp": {"tolerance": 0.1}}})
    document["metadata"]["annotations"] = {"serving.kserve.io/autoscalerClass": "keda"}
    (scaled,) = [child for child in children_of(document) if child["kind"] == "ScaledObject"]
    behavior = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleUp"]["tolerance"] == "100m"


def test_a_query_gets_the_number_that_was_written() -> None:
    external = {"metric": {"serverAddress": "http://b", "query": "up"}, "target": {"value": 0.5}}
    metrics = [{"type": "External", "external": external}]
    document = predictor(minReplicas=1, maxReplicas=2, autoScaling={"metrics": metrics})
    document["metadata"]["annotations"] = {"serving.kserve.io/autoscalerClass": "keda"}
    (scaled,) = [child for child in children_of(document) if child["kind"] == "ScaledObject"]
    assert scaled["spec"]["triggers"][0]["metadata"]["threshold"] == "0.5"


def test_numbers_of_the_annotation_and_the_configuration_are_taken() -> None:
    document = of_model(storageUri="s3://b/c")
    document["metadata"]["annotations"] = {ANNOTATION_STORAGE_RESOURCES: '{"limits": {"cpu": 0.5, "memory": 1e9}}'}
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "inferenceservice-config", "namespace": "kserve"},
        "data": {
            "storageInitializer": '{"cpuRequest": 0.25, "memoryRequest": 500000000, "caBundleConfigMapName": null}'
        },
    }
    found = checked(document, settings)
    assert found.texts(Severity.ERROR) == []
    (initializer,) = found.rendered[0].children[0]["spec"]["template"]["spec"]["initContainers"]
    assert initializer["resources"] == {
        "requests": {"cpu": "0.25", "memory": "500000000"},
        "limits": {"cpu": "500m", "memory": 1e9},
    }


def test_a_number_that_json_cannot_have_is_refused() -> None:
    (error,) = checked_text(json.dumps(of_model(resources={})).replace("{}}", "{}, stdin: .inf}")).texts(Severity.ERROR)
    assert error.startswith("a.yaml: InferenceService has a value that JSON has no type for")
