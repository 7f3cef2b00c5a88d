"""What is found in files: what would be refused, what could not be served, what has no effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from isvc.run.check import Checked, CheckFinding, Severity, check, without_models
from isvc.run.documents import YamlText
from isvc.run.place import Place
from tests.support.local_services import parsed, runtime, service

ERROR, NO_EFFECT, NOTE = Severity.ERROR, Severity.NO_EFFECT, Severity.NOTE


def checked(*documents: Any, settings: dict[str, str] | None = None) -> Checked:
    text = YamlText("my.yaml", yaml.safe_dump_all(documents))
    return check([text], "default", installed=parsed(runtime()).runtimes, settings=settings)


def said(found: Checked) -> tuple[CheckFinding, ...]:
    """What was found, without the places."""
    return tuple(replace(item, place=Place()) for item in found.findings)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (
            {"resources": {"limits": {"memory": "1GG"}}},
            ["my.yaml: InferenceService first: spec.predictor.model.resourc"],
        ),
        ({"modelFormat": {"name": "abacus"}}, ["InferenceService first: no runtime serves model format 'abacus'"]),
    ],
    ids=["an amount", "a format"],
)
def test_where_the_model_is_is_checked_whatever_else_is_wrong(model: dict[str, Any], told: list[str]) -> None:
    wrong = service(uri="s4://models")
    wrong["spec"]["predictor"]["model"] |= model

    texts = [finding.text for finding in checked(wrong).findings]

    told = [*told, "InferenceService first: storageUri 's4://models' has a scheme that is not supported"]
    assert [text[: len(words)] for text, words in zip(texts, told, strict=True)] == told


def test_each_object_is_checked_whatever_is_wrong_with_others() -> None:
    refused, unserved, stopped = service("refused"), service("unserved"), service("stopped")
    refused["spec"]["predictor"] |= {"minReplicas": "2", "name": "A"}
    unserved["spec"]["predictor"]["model"]["modelFormat"]["name"] = "abacus"
    stopped["metadata"]["annotations"] = {"serving.kserve.io/stop": "true"}
    ignored = service("ignored")
    ignored["spec"]["predictor"] |= {"minReplica": 2}
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "other"}}

    found = checked(refused, unserved, stopped, ignored, other, service())

    assert [item.service.metadata.name for item in found.usable] == ["ignored", "first"]
    assert said(found) == (
        CheckFinding(
            NO_EFFECT,
            "InferenceService ignored: spec.predictor.minReplica (did you mean minReplicas?)",
        ),
        CheckFinding(NOTE, "Deployment other: not an object that services are made from; ignored"),
        CheckFinding(NOTE, "InferenceService stopped: stopped by its annotation serving.kserve.io/stop; left out"),
        CheckFinding(
            ERROR,
            "my.yaml: InferenceService refused: spec.predictor.minReplicas: must be of type integer, not string",
        ),
        CheckFinding(
            ERROR,
            'my.yaml: InferenceService refused: spec.predictor.name: Invalid value: "A": should match '
            "'^[a-z]([-a-z0-9]*[a-z0-9])?$'",
        ),
        CheckFinding(
            ERROR,
            "InferenceService unserved: no runtime serves model format 'abacus' with protocol v1; available: 'fake' "
            "(fake). Correct spec.predictor.model, or install a runtime that serves it",
        ),
    )


def test_a_name_that_is_a_number_is_refused_as_by_the_api_server() -> None:
    numbered = service()
    numbered["metadata"]["name"] = 3

    assert said(checked(numbered))[0] == CheckFinding(
        ERROR,
        "my.yaml: InferenceService 3: metadata.name: must be of type string, not integer",
    )


def test_a_service_whose_secret_is_in_no_file_is_not_checked_further() -> None:
    body = service(uri="")
    model = body["spec"]["predictor"]["model"]
    del model["storageUri"]
    model["storage"] = {"key": "minio", "path": "bert"}

    (finding,) = checked(body).findings

    assert finding.severity is Severity.NOT_CHECKED
    assert finding.text.startswith("InferenceService first: secret storage-config")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("not JSON", "key minio of secret storage-config is not a JSON object; write one with type, bucket and keys"),
        ('{"type": "s3"}', "spec.predictor.model.storage.path needs a bucket; name it in "
         "spec.predictor.model.storage.parameters or in the entry of secret storage-config"),
    ],
)  # fmt: skip
def test_a_secret_in_the_files_that_is_broken_is_an_error(entry: str, said: str) -> None:
    body = service(uri="")
    body["spec"]["predictor"]["model"] |= {"storage": {"key": "minio", "path": "bert"}}
    del body["spec"]["predictor"]["model"]["storageUri"]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "storage-config"}}

    (finding,) = checked(body, secret | {"stringData": {"minio": entry}}).findings

    assert (finding.severity, finding.text) == (ERROR, f"InferenceService first: {said}")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"stringdata": {"HF_TOKEN": "hf_x"}}, "Secret keys: stringdata: unknown field (did you mean stringData?)"),
        ({"stringData": {"HF_TOKEN": 5}}, "stringData.HF_TOKEN: must be of type string, not integer"),
        ({"metadata": {"name": {"a": "b"}}}, "metadata.name: must be of type string, not object"),
        (
            {"metadata": {"name": "keys", "annotations": "a"}},
            "metadata.annotations: must be of type object, not string",
        ),
        ({"metadata": {"name": "Keys"}}, 'metadata.name: Invalid value: "Keys": '),
    ],
)
def test_a_secret_that_the_api_server_would_refuse_is_an_error(fields: dict[str, Any], said: str) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}} | fields

    assert [said in error for error in checked(service(), secret).texts(ERROR)] == [True]


def test_of_several_secrets_one_that_is_in_no_file_leaves_the_service_unchecked() -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    account |= {"secrets": [{"name": "here"}, {"name": "elsewhere"}]}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "here"}}

    (finding,) = checked(service(uri="s3://bucket/bert"), account, secret).findings

    assert finding.severity is Severity.NOT_CHECKED
    assert finding.text.startswith("InferenceService first: secret elsewhere, which service account default")


def test_settings_without_effect_and_settings_that_cannot_be_read_are_found() -> None:
    assert checked(service(), settings={"router": "{}"}).texts(NO_EFFECT) == [
        "ConfigMap inferenceservice-config: router (an InferenceGraph is not served)"
    ]
    (error,) = checked(service(), settings={"ingress": "{"}).texts(ERROR)
    assert error.startswith("inferenceservice-config")


def test_each_finding_says_where_to_look() -> None:
    refused, unserved, stopped, ignored = (service(name) for name in ("refused", "unserved", "stopped", "ignored"))
    refused["spec"]["predictor"] |= {"minReplicas": "2", "modle": {}}
    unserved["spec"]["predictor"]["model"]["modelFormat"]["name"] = "abacus"
    stopped["metadata"]["annotations"] = {"serving.kserve.io/stop": "true"}
    ignored["spec"]["predictor"] |= {"minReplica": 2}
    ignored["metadata"]["annotations"] = {"nginx.ingress.kubernetes.io/server-alias": "a"}
    ignored["spec"]["predictor"]["labels"] = {"networking.kserve.io/visibility": "cluster-local"}
    mine = runtime()
    mine["spec"]["mutliModel"] = True
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "other"}}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inferenceservice-config"}}
    data = {"router": "{}", "ingress": '{"pathTemplate": "/a"}'}

    found = checked("a text", refused, unserved, stopped, ignored, mine, other, {**settings, "data": data})

    a_service = {"file": "my.yaml", "kind": "InferenceService", "namespace": "default"}
    a_setting = {"file": "my.yaml", "kind": "ConfigMap", "namespace": "default", "name": "inferenceservice-config"}
    assert [item.place for item in found.findings] == [
        Place(**a_setting, field="data.ingress.pathTemplate"),
        Place(**a_setting, field="data.router"),
        Place(**a_service, name="ignored", field="spec.predictor.minReplica"),
        Place(**a_service, name="ignored", field="spec.predictor.labels[networking.kserve.io/visibility]"),
        Place(
            **a_service,
            name="ignored",
            field="metadata.annotations[nginx.ingress.kubernetes.io/server-alias]",
        ),
        Place(file="my.yaml", kind=mine["kind"], name=mine["metadata"]["name"], field="spec.mutliModel"),
        Place(file="my.yaml", kind="Deployment", name="other"),
        Place(**a_service, name="stopped", field="metadata.annotations[serving.kserve.io/stop]"),
        Place(file="my.yaml"),
        Place(**a_service, name="refused", field="spec.predictor.minReplicas"),
        Place(**a_service, name="refused", field="spec.predictor.modle"),
        Place(**a_service, name="unserved"),
    ]


def test_a_path_without_a_scheme_is_one_of_the_machine_that_serves_it() -> None:
    found = checked(service(uri="./models"))

    assert [finding.severity for finding in found.findings] == [Severity.MISSING]
    assert (without_models(found).findings, without_models(found).usable) == ((), list(found.rendered))
