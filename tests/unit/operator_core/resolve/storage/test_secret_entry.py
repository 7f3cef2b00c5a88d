"""Storage by an entry of the storage secret: which entry is used, and where the path is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from isvc_operator.errors import InvalidCredentials, InvalidSpec
from isvc_operator.resolve.storage.plan import StoragePlan, storage_source
from tests.support.builders import a_resolved, a_service
from tests.support.credentials import a_context, a_secret, an_account

MINIO = {"type": "s3", "bucket": "models", "access_key_id": "the-id", "secret_access_key": "the-secret"}
FIELD = "spec.predictor.model.storage"


def plan_of(
    storage: dict[str, Any], entries: dict[str, Any] | None = None, *, name: str = "storage-config", **fields: Any
) -> StoragePlan:
    objects = [an_account()]
    if entries is not None:
        texts = {key: text if isinstance(text, str) else json.dumps(text) for key, text in entries.items()}
        objects.append(a_secret(name, texts))
    service = a_service(**{"model": {"storageUri": None, "storage": storage}, **fields})
    plan = a_resolved(service, context=a_context(*objects)).predictor.storage
    assert plan is not None
    return plan


def refused(storage: dict[str, Any], entries: dict[str, Any] | None = None) -> str:
    with pytest.raises(InvalidSpec) as caught:
        plan_of(storage, entries)
    assert "the-secret" not in str(caught.value)
    return str(caught.value)


def config_from(name: str, key: str) -> dict[str, Any]:
    return {"name": "STORAGE_CONFIG", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}


def test_the_path_is_in_the_bucket_of_the_entry_that_the_key_names() -> None:
    plan = plan_of({"key": "minio", "path": "bert/1"}, {"minio": MINIO})

    assert plan.copied == (storage_source("s3://models/bert/1", "/mnt/models"),)
    assert plan.preset.env == (config_from("storage-config", "minio"),)


def test_parameters_go_over_the_entry_and_are_passed_on() -> None:
    plan = plan_of({"key": "minio", "path": "/bert", "parameters": {"bucket": "other"}}, {"minio": MINIO})

    assert plan.copied[0].uri == "s3://other/bert"
    assert plan.preset.value("STORAGE_OVERRIDE_CONFIG") == '{"bucket": "other"}'


@pytest.mark.parametrize(
    ("entries", "parameters", "chosen"),
    [
        (["default", "default_s3"], None, "default"),
        (["default", "default_s3"], {"type": "s3"}, "default_s3"),
        (["default"], {"type": "s3"}, "default"),
    ],
)
def test_without_a_key_the_default_of_the_type_counts(
    entries: list[str], parameters: dict[str, str] | None, chosen: str
) -> None:
    storage = {"path": "bert"} | ({} if parameters is None else {"parameters": parameters})

    assert plan_of(storage, dict.fromkeys(entries, MINIO)).preset.env[0] == config_from("storage-config", chosen)


def test_without_an_entry_the_parameters_may_say_it_all() -> None:
    plan = plan_of({"path": "bert", "parameters": {"type": "s3", "bucket": "public"}})

    assert plan.copied[0].uri == "s3://public/bert"
    assert [item["name"] for item in plan.preset.env] == ["STORAGE_OVERRIDE_CONFIG"]


def test_the_secret_may_have_the_name_that_an_annotation_gives_it() -> None:
    annotations = {"serving.kserve.io/storageSecretName": "mine"}

    plan = plan_of({"key": "minio", "path": "bert"}, {"minio": MINIO}, name="mine", annotations=annotations)

    assert plan.preset.env == (config_from("mine", "minio"),)


def test_the_entry_may_be_for_a_uri() -> None:
    plan = plan_of({"key": "minio"}, {"minio": MINIO}, model={"storageUri": "s3://b/m", "storage": {"key": "minio"}})

    assert plan.copied[0].uri == "s3://b/m"
    assert plan.preset.env == (config_from("storage-config", "minio"),)


def test_its_certificates_are_mounted() -> None:
    plan = plan_of({"key": "minio", "path": "bert"}, {"minio": {**MINIO, "cabundle_configmap": "minios"}})

    assert plan.preset.value("CA_BUNDLE_CONFIGMAP_NAME") == "minios"


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any] | None, str]] = {
    "no such secret": (
        {"key": "minio", "path": "bert"},
        None,
        f"secret storage-config lacks the key minio of {FIELD}.key; there is no such secret",
    ),
    "no such key": (
        {"key": "minio", "path": "bert"},
        {"ceph": MINIO, "aws": MINIO},
        f"secret storage-config lacks the key minio of {FIELD}.key; it has: aws, ceph",
    ),
    "an entry that is no JSON": (
        {"key": "minio", "path": "bert"},
        {"minio": "the-secret"},
        "key minio of secret storage-config is not a JSON object; write one with type, bucket and keys",
    ),
    "no bucket": (
        {"key": "minio", "path": "bert"},
        {"minio": {"type": "s3"}},
        f"{FIELD}.path needs a bucket; name it in {FIELD}.parameters or in the entry of secret storage-config",
    ),
    "no type": (
        {"key": "minio", "path": "bert"},
        {"minio": {"bucket": "b"}},
        f"neither key minio of secret storage-config nor {FIELD}.parameters has a known type (there is none); "
        "write one of s3, hdfs, webhdfs",
    ),
    "another type, and no entry": (
        {"path": "bert", "parameters": {"type": "gcs"}},
        None,
        f"neither secret storage-config, which has no entry for it, nor {FIELD}.parameters has a known type "
        "(gcs); write one of s3, hdfs, webhdfs",
    ),
    "no path": (
        {"key": "minio"},
        {"minio": MINIO},
        f"{FIELD} has no path; give one, or a storageUri beside it",
    ),
    "a type that nothing downloads": (
        {"key": "hadoop", "path": "bert"},
        {"hadoop": {"type": "hdfs"}},
        "storageUri 'hdfs://bert' has a scheme that is not supported; use one of s3://, gs://, abfs://, abfss://, "
        "hf://, https://, http://, pvc://, file://, or install a ClusterStorageContainer for it (there is none)",
    ),
}


@pytest.mark.parametrize(("storage", "entries", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_storage_that_cannot_be_found_is_refused(
    storage: dict[str, Any], entries: dict[str, Any] | None, told: str
) -> None:
    assert refused(storage, entries) == told


def test_a_uri_and_a_path_are_one_too_many() -> None:
    with pytest.raises(InvalidSpec, match=r"storageUri and storage\.path are both given; remove one of them"):
        plan_of({}, model={"storageUri": "s3://b/m", "storage": {"path": "bert"}})


def test_what_is_wrong_with_a_secret_may_be_mended_without_the_service() -> None:
    with pytest.raises(InvalidCredentials):
        plan_of({"key": "minio", "path": "bert"})
