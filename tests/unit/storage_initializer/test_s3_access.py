"""The environment that KServe gives an initializer, to a bucket's address and who asks it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storage_initializer.backends.aws import ANONYMOUS, AwsIdentity
from storage_initializer.backends.s3_access import S3Access, s3_access
from storage_initializer.backends.trust import Trust
from storage_initializer.errors import UsageError

KEYS = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s3cret"}


def keyed(access_key: str, secret_key: str, token: str | None = None) -> AwsIdentity:
    keys: Any = {"access_key_id": access_key, "secret_access_key": secret_key, "token": token, "expires_at": None}
    return AwsIdentity(f"access key {access_key}", keys=keys)


MINIO = {"AWS_ENDPOINT_URL": "http://minio:9000"}


def test_without_anything_it_is_amazon_asked_as_the_node() -> None:
    assert s3_access("models", {}) == S3Access(
        bucket="models",
        service="https://s3.us-east-1.amazonaws.com",
        virtual=True,
        region="us-east-1",
        identity=AwsIdentity(
            "the node's role", {"metadata_endpoint": "http://169.254.169.254"}, node="http://169.254.169.254"
        ),
        trust=Trust(verify=True, ca_file=""),
    )


@pytest.mark.parametrize(
    ("environment", "bucket_url"),
    [
        ({"AWS_DEFAULT_REGION": "eu-west-1"}, "https://models.s3.eu-west-1.amazonaws.com"),
        ({"AWS_DEFAULT_REGION": "cn-north-1"}, "https://models.s3.cn-north-1.amazonaws.com.cn"),
        ({"S3_USE_ACCELERATE": "1"}, "https://models.s3-accelerate.amazonaws.com"),
        (MINIO, "http://minio:9000/models"),
        ({"AWS_ENDPOINT_URL": "https://gateway/s3/"}, "https://gateway/s3/models"),
        ({**MINIO, "S3_USER_VIRTUAL_BUCKET": "true"}, "http://models.minio:9000"),
        ({"S3_ENDPOINT": "minio:9000"}, "https://minio:9000/models"),
        ({"S3_ENDPOINT": "minio:9000", "S3_USE_HTTPS": "0"}, "http://minio:9000/models"),
        ({**MINIO, "S3_ENDPOINT": "other"}, "http://minio:9000/models"),
    ],
)
def test_where_the_bucket_is(environment: dict[str, str], bucket_url: str) -> None:
    assert s3_access("models", environment).bucket_url == bucket_url


def test_a_bucket_with_a_dot_is_a_part_of_the_path_as_no_certificate_covers_it() -> None:
    assert s3_access("models.example.com", {}).bucket_url == "https://s3.us-east-1.amazonaws.com/models.example.com"


ROLE = {"AWS_ROLE_ARN": "arn:r", "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}


@pytest.mark.parametrize(
    ("environment", "identity"),
    [
        (KEYS, "access key AKIA"),
        ({**KEYS, "awsAnonymousCredential": "true"}, "anonymous"),
        ({"AWS_ACCESS_KEY_ID": "AKIA", "awsAnonymousCredential": "true"}, "anonymous"),
        ({"AWS_EC2_METADATA_DISABLED": "true"}, "anonymous"),
        ({"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://[fd00:ec2::254]/"}, "the node's role"),
        (
            {**ROLE, "AWS_DEFAULT_REGION": "eu-west-1"},
            "role arn:r (web identity, https://sts.eu-west-1.amazonaws.com)",
        ),
        (
            {**ROLE, "AWS_REGION": "cn-northwest-1"},
            "role arn:r (web identity, https://sts.cn-northwest-1.amazonaws.com.cn)",
        ),
        ({**ROLE, "AWS_ENDPOINT_URL_STS": "https://sts/"}, "role arn:r (web identity, https://sts)"),
        (
            {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/token",
            },
            "pod identity (http://169.254.170.23/v1/credentials)",
        ),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials"}, "the node's role"),
    ],
)
def test_who_asks(environment: dict[str, str], identity: str) -> None:
    assert str(s3_access("models", environment).identity) == identity


def test_the_session_of_a_role_has_the_name_that_is_given() -> None:
    found = [
        s3_access("models", environment).identity.settings["role_session_name"]
        for environment in (ROLE, {**ROLE, "AWS_ROLE_SESSION_NAME": "me"})
    ]

    assert found == ["storage-initializer", "me"]


def test_the_key_of_storage_config_beats_the_environment_and_the_service_beats_both() -> None:
    key = {
        "type": "s3",
        "access_key_id": "OTHER",
        "secret_access_key": "0ther",
        "endpoint_url": "http://minio:9000",
        "region": "eu-west-1",
        "bucket": "ignored",
        "verify_ssl": "0",
        "ca_bundle": "/ca.crt",
    }

    access = s3_access(
        "models",
        {
            **KEYS,
            "awsAnonymousCredential": "1",
            "AWS_SESSION_TOKEN": "of the other keys",
            "STORAGE_CONFIG": json.dumps(key),
            "STORAGE_OVERRIDE_CONFIG": json.dumps({"region": "eu-north-1"}),
        },
    )

    assert access == S3Access(
        bucket="models",
        service="http://minio:9000",
        virtual=False,
        region="eu-north-1",
        identity=keyed("OTHER", "0ther"),
        trust=Trust(verify=False, ca_file="/ca.crt", own=True),
    )


def test_a_null_of_storage_config_is_an_absent_field() -> None:
    key = {"endpoint_url": None, "region": None}

    assert s3_access("models", {"STORAGE_CONFIG": json.dumps(key)}) == s3_access("models", {})


def test_keys_of_storage_config_may_have_a_token_of_their_own() -> None:
    key = {"access_key_id": "OTHER", "secret_access_key": "0ther", "session_token": "own"}

    access = s3_access("models", {**KEYS, "AWS_SESSION_TOKEN": "t", "STORAGE_CONFIG": json.dumps(key)})

    assert access.identity == keyed("OTHER", "0ther", "own")


@pytest.mark.parametrize("config", [{}, {"type": "s3"}, {"type": ""}])
def test_an_entry_without_a_type_is_for_s3(config: dict[str, str]) -> None:
    entry = {**config, "access_key_id": "OTHER", "secret_access_key": "0ther"}

    access = s3_access("models", {**KEYS, "STORAGE_CONFIG": json.dumps(entry)})

    assert (access.identity, access.note) == (keyed("OTHER", "0ther"), "")


@pytest.mark.parametrize(
    ("config", "override"), [({"type": "hdfs"}, {}), ({}, {"type": "hdfs"}), ({"type": "s3"}, {"type": "hdfs"})]
)
def test_an_entry_for_another_store_is_not_used_and_the_log_says_so(
    config: dict[str, str], override: dict[str, str]
) -> None:
    entry = {**config, "access_key_id": "OTHER", "secret_access_key": "0ther", "region": "eu-west-1"}
    environment = {"STORAGE_CONFIG": json.dumps(entry), "STORAGE_OVERRIDE_CONFIG": json.dumps(override)}

    access = s3_access("models", {**KEYS, **MINIO, **environment})

    assert access.identity == keyed("AKIA", "s3cret")
    assert str(access) == (
        "endpoint http://minio:9000, region us-east-1, STORAGE_CONFIG is not used, as its type is hdfs"
    )


def test_storage_config_may_ask_anonymously() -> None:
    access = s3_access("models", {**KEYS, "STORAGE_CONFIG": json.dumps({"anonymous": True})})

    assert access.identity == ANONYMOUS


@pytest.mark.parametrize(
    ("environment", "trust"),
    [
        ({"S3_VERIFY_SSL": "0"}, Trust(verify=False)),
        ({"S3_VERIFY_SSL": "False"}, Trust(verify=False)),
        ({"S3_VERIFY_SSL": "1"}, Trust()),
        ({"AWS_CA_BUNDLE": "/own.crt"}, Trust(ca_file="/own.crt", own=True)),
        (
            {"CA_BUNDLE_CONFIGMAP_NAME": "global-ca-bundle", "CA_BUNDLE_VOLUME_MOUNT_POINT": "/etc/ssl/custom-certs"},
            Trust(ca_file="/etc/ssl/custom-certs/cabundle.crt"),
        ),
        ({"CA_BUNDLE_VOLUME_MOUNT_POINT": "/etc/ssl/custom-certs"}, Trust()),
    ],
)
def test_which_certificates_are_believed(environment: dict[str, str], trust: Trust) -> None:
    assert s3_access("models", environment).trust == trust


def test_the_log_line_has_no_secret() -> None:
    access = s3_access("models", {**KEYS, **MINIO, "S3_VERIFY_SSL": "0"})

    assert str(access.identity) == "access key AKIA"
    assert str(access) == "endpoint http://minio:9000, region us-east-1, certificates not checked"
    assert "s3cret" not in repr(access)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"STORAGE_CONFIG": '{"secret_access_key": "s3cret"'},
            "STORAGE_CONFIG is not valid JSON (Expecting ',' delimiter: line 1 column 31 (char 30)); "
            "correct the key of the secret storage-config",
        ),
        (
            {"STORAGE_OVERRIDE_CONFIG": "[]"},
            "STORAGE_OVERRIDE_CONFIG is not a JSON object; correct the key of the secret storage-config",
        ),
        (
            {"AWS_ENDPOINT_URL": "minio:9000"},
            "the S3 endpoint is 'minio:9000', which is not a URL; write https://HOST[:PORT]",
        ),
        ({"S3_ENDPOINT": "[::1"}, "the S3 endpoint is 'https://[::1', which is not a URL; write https://HOST[:PORT]"),
        (
            {"S3_ENDPOINT": "minio:nine"},
            "the S3 endpoint is 'https://minio:nine', which is not a URL; write https://HOST[:PORT]",
        ),
        *(
            (
                {name: "eu west"},
                "the region 'eu west' has characters that none has; correct AWS_DEFAULT_REGION, "
                "the annotation serving.kserve.io/s3-region, or region in the secret storage-config",
            )
            for name in ("AWS_DEFAULT_REGION", "AWS_REGION")
        ),
        (
            {"AWS_ACCESS_KEY_ID": "AKIA"},
            "AWS_ACCESS_KEY_ID is given without AWS_SECRET_ACCESS_KEY; add it, or remove AWS_ACCESS_KEY_ID",
        ),
        (
            {"AWS_SECRET_ACCESS_KEY": "s3cret"},
            "AWS_SECRET_ACCESS_KEY is given without AWS_ACCESS_KEY_ID; add it, or remove AWS_SECRET_ACCESS_KEY",
        ),
    ],
)
def test_what_makes_no_sense_is_explained_without_a_secret(environment: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        s3_access("models", environment)

    assert str(raised.value) == message
