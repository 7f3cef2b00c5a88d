"""What a secret gives to the storage-initializer, by its keys; secret values are only referred to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from isvc_operator.config import CredentialsConfig, parse_config
from isvc_operator.errors import InvalidCredentials
from isvc_operator.resolve.storage.credentials import credentials_of
from isvc_operator.resolve.storage.plan import PodPreset
from tests.support.credentials import GCS_KEY, HTTP_HEADERS, S3_KEYS, a_secret, an_account, s3_annotations

REAL_KEYS = {"AWS_ACCESS_KEY_ID": ("s3", "AWS_ACCESS_KEY_ID"), "AWS_SECRET_ACCESS_KEY": ("s3", "AWS_SECRET_ACCESS_KEY")}


def given(*secrets: dict[str, Any], account: dict[str, Any] | None = None, **config: Any) -> PodPreset:
    credentials = parse_config({"credentials": json.dumps(config)}).credentials
    return credentials_of(account or an_account(), secrets, credentials)


def env_of(preset: PodPreset) -> dict[str, Any]:
    """Variables by their names: a text, or the secret and its key."""

    def value(item: Any) -> Any:
        reference = item.get("valueFrom", {}).get("secretKeyRef")
        return (reference["name"], reference["key"]) if reference else item["value"]

    return {item["name"]: value(item) for item in preset.env}


def refused(*secrets: dict[str, Any]) -> str:
    with pytest.raises(InvalidCredentials) as caught:
        given(*secrets)
    assert "the-secret" not in str(caught.value)
    return str(caught.value)


# --- S3 -------------------------------------------------------------------------------------------------


def test_keys_of_s3_are_taken_by_reference() -> None:
    assert env_of(given(a_secret("s3"))) == REAL_KEYS


def test_a_session_token_is_taken_along() -> None:
    secret = a_secret("s3", {**S3_KEYS, "AWS_SESSION_TOKEN": "the-secret"})

    assert env_of(given(secret)) == {**REAL_KEYS, "AWS_SESSION_TOKEN": ("s3", "AWS_SESSION_TOKEN")}


def test_keys_may_have_the_names_that_the_configuration_gives_them() -> None:
    secret = a_secret("s3", {"id": "the-id", "key": "the-secret"})
    names = {"s3AccessKeyIDName": "id", "s3SecretAccessKeyName": "key"}

    assert env_of(given(secret, s3=names)) == {
        "AWS_ACCESS_KEY_ID": ("s3", "id"),
        "AWS_SECRET_ACCESS_KEY": ("s3", "key"),
    }


def test_every_setting_of_s3_may_be_an_annotation() -> None:
    annotations = s3_annotations(
        endpoint="minio:9000",
        usehttps="0",
        region="eu-west-1",
        verifyssl="0",
        usevirtualbucket="false",
        useaccelerate="false",
        useanoncredential="false",
        cabundle="/certs/ca.crt",
        cabundle_configmap="minios",
    )

    assert env_of(given(a_secret("s3", annotations=annotations))) == {
        **REAL_KEYS,
        "S3_ENDPOINT": "minio:9000",
        "S3_USE_HTTPS": "0",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "S3_VERIFY_SSL": "0",
        "S3_USER_VIRTUAL_BUCKET": "false",
        "S3_USE_ACCELERATE": "false",
        "awsAnonymousCredential": "false",
        "AWS_CA_BUNDLE": "/certs/ca.crt",
        "AWS_CA_BUNDLE_CONFIGMAP": "minios",
        "AWS_ENDPOINT_URL": "http://minio:9000",
    }


def test_an_annotation_wins_over_the_secrets_data_and_this_over_the_configuration() -> None:
    stored = {"S3_ENDPOINT": "stored:9000", "AWS_DEFAULT_REGION": "stored"}
    secret = a_secret("s3", {**S3_KEYS, **stored}, annotations=s3_annotations(region="annotated"))
    config = {"s3Endpoint": "configured", "s3Region": "configured", "s3UseHttps": "0"}

    assert env_of(given(secret, s3=config)) == {
        **REAL_KEYS,
        "S3_ENDPOINT": ("s3", "S3_ENDPOINT"),
        "S3_USE_HTTPS": "0",
        "AWS_DEFAULT_REGION": "annotated",
        "AWS_ENDPOINT_URL": "http://$(S3_ENDPOINT)",
    }


def test_a_reference_stands_before_the_variable_that_is_made_of_it() -> None:
    names = list(env_of(given(a_secret("s3", {**S3_KEYS, "S3_ENDPOINT": "minio"}))))

    assert names.index("S3_ENDPOINT") < names.index("AWS_ENDPOINT_URL")


@pytest.mark.parametrize(
    ("endpoint", "https", "url"),
    [
        ("minio:9000", None, "https://minio:9000"),
        ("minio:9000", "1", "https://minio:9000"),
        ("minio:9000", "0", "http://minio:9000"),
        ("minio:9000", "false", "http://minio:9000"),
        ("http://minio:9000", "1", "http://minio:9000"),
    ],
)
def test_the_endpoints_url(endpoint: str, https: str | None, url: str) -> None:
    annotations = s3_annotations(endpoint=endpoint, **({} if https is None else {"usehttps": https}))

    assert env_of(given(a_secret("s3", annotations=annotations)))["AWS_ENDPOINT_URL"] == url


def test_a_public_bucket_needs_no_keys() -> None:
    secret = a_secret("s3", {}, annotations=s3_annotations(useanoncredential="true"))

    assert env_of(given(secret)) == {"awsAnonymousCredential": "true"}


@pytest.mark.parametrize(
    ("data", "missing"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "the-secret"}, "AWS_ACCESS_KEY_ID"),
        ({"AWS_ACCESS_KEY_ID": "the-id"}, "AWS_SECRET_ACCESS_KEY"),
        ({}, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_a_key_that_is_not_there_is_named_with_its_secret(data: dict[str, str], missing: str) -> None:
    assert refused(a_secret("s3", data, annotations=s3_annotations(region="eu"))) == (
        f"secret s3 lacks the key {missing}; add it, or annotate the secret with "
        'serving.kserve.io/s3-useanoncredential: "true" for a public bucket'
    )


def test_an_account_with_a_role_gives_its_settings_and_no_keys() -> None:
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/models", **s3_annotations(region="eu-west-1")}

    assert env_of(given(account=an_account(annotations=role))) == {"AWS_DEFAULT_REGION": "eu-west-1"}


def test_an_account_without_role_and_settings_is_not_about_s3() -> None:
    assert given(account=an_account(), s3={"s3Region": "configured"}) == PodPreset()


def test_a_secrets_word_counts_more_than_its_accounts() -> None:
    account = an_account(annotations=s3_annotations(region="account", endpoint="account"))

    env = env_of(given(a_secret("s3", annotations=s3_annotations(region="secret")), account=account))

    assert (env["AWS_DEFAULT_REGION"], env["S3_ENDPOINT"]) == ("secret", "account")


# --- Google Cloud Storage, and HTTP ----------------------------------------------------------------------


def test_a_google_account_is_mounted_as_the_file_that_google_looks_for() -> None:
    assert given(a_secret("google", GCS_KEY)) == PodPreset(
        env=(
            {
                "name": "GOOGLE_APPLICATION_CREDENTIALS",
                "value": "/var/secrets/gcloud-application-credentials.json",
            },
        ),
        volumes=({"name": "user-gcp-sa", "secret": {"secretName": "google"}},),
        mounts=({"name": "user-gcp-sa", "mountPath": "/var/secrets/", "readOnly": True},),
    )


def test_its_file_may_have_the_name_that_the_configuration_gives_it() -> None:
    preset = given(a_secret("google", {"key.json": "{}"}), gcs={"gcsCredentialFileName": "key.json"})

    assert env_of(preset) == {"GOOGLE_APPLICATION_CREDENTIALS": "/var/secrets/key.json"}


def test_headers_for_a_host_are_taken_by_reference() -> None:
    assert given(a_secret("web", HTTP_HEADERS)) == PodPreset(
        env=(
            {
                "name": "models.example.com-headers",
                "valueFrom": {"secretKeyRef": {"name": "web", "key": "headers"}},
            },
        )
    )


BAD: dict[str, tuple[dict[str, str], str]] = {
    "a Google account that is no JSON": (
        {"gcloud-application-credentials.json": "the-secret"},
        "key gcloud-application-credentials.json of secret bad is not the JSON file of a Google service account; "
        "store that there",
    ),
    "headers that are no JSON": (
        {"https-host": "example.com", "headers": "Authorization: the-secret"},
        "key headers of secret bad is not a JSON object of names and values; store that there",
    ),
    "no headers": (
        {"https-host": "example.com"},
        "secret bad lacks the key headers; add it, a JSON object of names and values",
    ),
    "a URL for a host": (
        {"https-host": "https://example.com", "headers": "{}"},
        "key https-host of secret bad is 'https://example.com'; write a host such as example.com",
    ),
}


@pytest.mark.parametrize(("data", "told"), BAD.values(), ids=BAD.keys())
def test_an_invalid_secret_is_reported_with_its_key_and_without_its_value(data: dict[str, str], told: str) -> None:
    assert refused(a_secret("bad", data)) == told


def test_a_value_that_is_not_text_is_reported() -> None:
    secret = a_secret("bad", HTTP_HEADERS)
    secret["data"]["headers"] = "//79"

    assert refused(secret) == "key headers of secret bad is not text; store it again as it was issued"


# --- which of them ----------------------------------------------------------------------------------------


def test_secrets_for_several_kinds_are_all_given() -> None:
    preset = given(a_secret("s3"), a_secret("google", GCS_KEY), a_secret("web", HTTP_HEADERS))

    assert list(env_of(preset)) == [*REAL_KEYS, "GOOGLE_APPLICATION_CREDENTIALS", "models.example.com-headers"]


def test_of_two_secrets_for_one_kind_the_last_counts_and_nothing_of_the_other() -> None:
    first = a_secret("first", annotations=s3_annotations(region="first"))

    assert env_of(given(first, a_secret("s3"))) == REAL_KEYS


def test_two_hosts_have_their_own_headers_each() -> None:
    other = a_secret("other", {**HTTP_HEADERS, "https-host": "other.example.com"})

    assert env_of(given(a_secret("web", HTTP_HEADERS), other)) == {
        "models.example.com-headers": ("web", "headers"),
        "other.example.com-headers": ("other", "headers"),
    }


def test_a_secret_of_another_use_is_left_alone() -> None:
    assert given(a_secret("token", {"token": "the-secret"}), a_secret("empty", {})) == PodPreset()


OTHERS = {
    "HF_TOKEN": ["HF_TOKEN"],
    "MODELSCOPE_API_TOKEN": ["MODELSCOPE_API_TOKEN"],
    "AZURE_STORAGE_ACCESS_KEY": ["AZURE_STORAGE_ACCESS_KEY"],
    "AZURE_CLIENT_ID": ["AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_SUBSCRIPTION_ID", "AZURE_TENANT_ID"],
    "AZ_CLIENT_ID": ["AZ_CLIENT_ID", "AZ_CLIENT_SECRET", "AZ_SUBSCRIPTION_ID", "AZ_TENANT_ID"],
}


@pytest.mark.parametrize("keys", OTHERS.values(), ids=OTHERS.keys())
def test_what_other_containers_download_with_is_taken_by_reference(keys: list[str]) -> None:
    preset = given(a_secret("other", dict.fromkeys(keys, "the-secret")))

    assert env_of(preset) == {key: ("other", key) for key in keys}


def test_hdfs_has_its_keys_as_files() -> None:
    preset = given(a_secret("hadoop", {"HDFS_NAMENODE": "http://name:1"}))

    assert preset.mounts == ({"name": "hdfs-secrets", "mountPath": "/var/secrets/kserve-hdfscreds", "readOnly": True},)


def test_nothing_secret_is_written_into_the_pod() -> None:
    preset = given(a_secret("s3"), a_secret("google", GCS_KEY), a_secret("web", HTTP_HEADERS))

    assert "the-secret" not in json.dumps([preset.env, preset.volumes, preset.mounts])


def test_without_an_account_there_is_nothing() -> None:
    assert credentials_of(None, (), CredentialsConfig()) == PodPreset()
