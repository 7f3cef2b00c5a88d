"""What is read from YAML texts, and how an unusable one is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from isvc.run.documents import YamlText, parse_documents
from isvc.run.errors import UnusableInput
from isvc.run.place import Place
from tests.support.local_services import runtime, service


def text(*documents: object) -> YamlText:
    return YamlText("my.yaml", yaml.safe_dump_all(documents))


def test_objects_of_several_documents_are_told_apart_and_those_of_other_kinds_are_named() -> None:
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "other"}}

    found = parse_documents([text(service(), None, other), text(runtime())], "default")

    assert [item.metadata.name for item in found.services] == ["first"]
    assert [item.metadata.name for item in found.runtimes] == ["fake"]
    assert [(place.kind, place.name) for place in found.ignored] == [("Deployment", "other")]


def test_what_storage_refers_to_is_read_as_it_would_be_stored() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3"}, "data": {"a": "YQ=="}}
    container = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterStorageContainer",
        "metadata": {"name": "mine"},
        "spec": {"container": {"name": "mine"}, "supportedUriFormats": []},
    }

    found = parse_documents([text({**secret, "stringData": {"b": "b"}}, container)], "default")

    assert found.objects == (
        {**secret, "metadata": {"name": "s3", "namespace": "default"}, "data": {"a": "YQ==", "b": "Yg=="}},
    )
    assert [item.metadata.name for item in found.storage_containers] == ["mine"]


def test_an_object_without_a_namespace_is_placed_in_the_given_one() -> None:
    elsewhere = service("second")
    elsewhere["metadata"]["namespace"] = "elsewhere"

    found = parse_documents([text(service(), elsewhere, runtime())], "mine")

    assert [item.metadata.namespace for item in found.services] == ["mine", "elsewhere"]
    assert found.runtimes[0].metadata.namespace is None


def test_the_items_of_a_list_are_read_as_kubectl_prints_them() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [service(), service("second"), runtime()]}

    found = parse_documents([text(listed)], "default")

    assert [item.metadata.name for item in found.services] == ["first", "second"]
    assert [item.metadata.name for item in found.runtimes] == ["fake"]
    assert found.ignored == ()


def test_an_object_that_is_given_twice_is_refused_with_both_places() -> None:
    there = YamlText("other.yaml", yaml.safe_dump(service()))

    with pytest.raises(UnusableInput) as refused:
        parse_documents([text(runtime(), service()), there], "default")

    assert str(refused.value) == (
        "InferenceService first of namespace default is given twice: object 2 of my.yaml, and object 1 of other.yaml; "
        "remove one of them"
    )


def test_a_key_that_occurs_twice_is_refused_as_by_kubectl() -> None:
    with pytest.raises(UnusableInput, match=r"my.yaml:3:1: this is not YAML: the key kind occurs twice"):
        parse_documents([YamlText("my.yaml", "kind: A\nitems: []\nkind: B\n")], "default")


def test_a_key_may_occur_beside_the_one_that_it_replaces_in_a_merged_mapping() -> None:
    anchor = "metadata: {labels: &labels {<<: {name: a}, name: b}, <<: *labels}"

    (ignored,) = parse_documents([YamlText("my.yaml", f"kind: Deployment\n{anchor}\n")], "default").ignored

    assert ignored == Place(file="my.yaml", kind="Deployment", name="b")


def test_a_date_is_a_text_as_for_the_api_server() -> None:
    dated = {**service(), "metadata": {"name": "first", "labels": {"since": "2026-01-01"}}}
    written = yaml.safe_dump(dated).replace("'2026-01-01'", "2026-01-01")

    (found,) = parse_documents([YamlText("my.yaml", written)], "default").services

    assert found.metadata.labels == {"since": "2026-01-01"}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2.0", 2),
        ("1e3", 1000),
        ("1.5e0", 1.5),
        (".5e1", 5),
        ("-1E-1", -0.1),
        ("1e30", 1e30),
        ("0x1e3", 483),
        ("1e", "1e"),
        ("e1", "e1"),
        ("12:30", "12:30"),
        ("1:30.5", "1:30.5"),
        ("=", "="),
        ("'1e3'", "1e3"),
        ("[null, {a: null}]", [None, {}]),
    ],
)
def test_numbers_and_nulls_are_read_as_the_api_server_gets_them_from_kubectl(written: str, read: Any) -> None:
    text = f"{yaml.safe_dump(service())}  somethingNew: {written}\n  somethingElse: null\n"

    (found,) = parse_documents([YamlText("my.yaml", text)], "default").services

    assert found.spec.model_extra == {"somethingNew": read}
    assert type(found.spec.model_extra["somethingNew"]) is type(read)


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_keys_that_are_no_texts_are_read_as_the_api_server_gets_them_from_kubectl(kind: str) -> None:
    data = '{5432: "YQ==", 0x10: "YQ==", 1.5: "YQ==", true: "YQ==", "2": "YQ=="}'
    text = f"{{apiVersion: v1, kind: {kind}, metadata: {{name: keys, labels: {{1: a}}}}, data: {data}}}"

    assert parse_documents([YamlText("my.yaml", text)], "default").objects == (
        {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": "keys", "labels": {"1": "a"}, "namespace": "default"},
            "data": dict.fromkeys(("5432", "16", "1.5", "true", "2"), "YQ=="),
        },
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "{kind: InferenceService, apiVersion: serving.kserve.io/v1beta1, metadata: {name: a}, spec: !!set {b}}",
            "my.yaml: InferenceService has a value that JSON has no type for: Object of type set is not JSON "
            "serializable",
        ),
        (
            "kind: [\n",
            "my.yaml:2:1: this is not YAML: a list or object is not closed; write its ] or } at its end",
        ),
        ("kind: Secret\ndata:\n  ~: a\n", "my.yaml:3:3: this is not YAML: a key is null; write it in quotes"),
        (
            "kind: Secret\na: " + "1" * 5000,
            "my.yaml:2:4: this is not YAML: this is not a valid int; write a text in quotes",
        ),
        (
            "kind: Secret\na: !!bool b",
            "my.yaml:2:4: this is not YAML: this is not a valid bool; write a text in quotes",
        ),
        (
            "{apiVersion: v1, kind: Secret, metadata: {name: s3}, data: {key: plain-text}}",
            "Secret s3: the value of key key in data is not Base64; write the text below stringData",
        ),
        ("just a sentence", "my.yaml: a document has no `kind`; is this a Kubernetes object?"),
        ("kind:\n", "my.yaml: a document has no `kind`; is this a Kubernetes object?"),
        (
            "kind: InferenceService\nmetadata: none\n",
            "my.yaml: InferenceService has no name; give it one in metadata.name",
        ),
        (
            "\0",
            "my.yaml: this is not YAML: it has the character #x0000 at position 0, as binary files do; a model's file "
            "ends with .pt, .pth, .ts, .pt2, .onnx, .mar, .model, .tar.gz",
        ),
        (
            "{apiVersion: serving.kserve.io/v1alpha2, kind: InferenceService, metadata: {name: old}}",
            "my.yaml: InferenceService old has apiVersion serving.kserve.io/v1alpha2; "
            "write apiVersion: serving.kserve.io/v1beta1",
        ),
        (
            "{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, metadata: {name: a}, "
            "spec: {predictor: 1}}",
            "my.yaml: InferenceService a: spec.predictor: must be of type object",
        ),
    ],
)
def test_an_unusable_text_is_refused_with_its_place_and_the_fix(content: str, message: str) -> None:
    with pytest.raises(UnusableInput) as refused:
        parse_documents([YamlText("my.yaml", content)], "default")

    assert str(refused.value) == message
