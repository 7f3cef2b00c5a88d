"""Stored secrets: usable whatever stands around them, refused by name, and in nothing that the initializer says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage_initializer import inspection
from storage_initializer.cli import main
from storage_initializer.errors import UsageError
from storage_initializer.secrets import hiding, stored
from tests.support.ports import free_port

SECRET = "Geheim42"
_S3 = {"AWS_ACCESS_KEY_ID": "me"}
_AGENT = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://HOST/x"}
_AZURE = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c"}
# A source, what it needs besides, and the variable with the secret; a "%" stands for it where it is a part.
_INPUTS = [
    ("s3://bucket/m", _S3, "AWS_SECRET_ACCESS_KEY", "%"),
    ("s3://bucket/m", {**_S3, "AWS_SECRET_ACCESS_KEY": "mine"}, "AWS_SESSION_TOKEN", "%"),
    ("s3://bucket/m", {}, "STORAGE_CONFIG", '{"access_key_id": "me", "secret_access_key": "%"}'),
    ("s3://bucket/m", {}, "STORAGE_OVERRIDE_CONFIG", '{"access_key_id": "me", "secret_access_key": "%"}'),
    ("hf://owner/model", {}, "HF_TOKEN", "%"),
    ("https://HOST/m.mar", {}, "HOST-headers", '{"Authorization": "Bearer %"}'),
    ("https://HOST/m.mar", {}, "HOST-headers", '["%"]'),
    ("https://account.blob.core.windows.net/c/m", {}, "AZURE_STORAGE_ACCESS_KEY", "%"),
    ("https://account.blob.core.windows.net/c/m", _AZURE, "AZURE_CLIENT_SECRET", "%"),
    ("https://u:%@HOST/m.mar", {}, "", ""),
    ("https://u:pa/%@HOST/m.mar", {}, "", ""),
    ("ftp://u:%@HOST/m.mar", {}, "", ""),
    ("s3://u:%@bucket/m", {}, "", ""),
    ("https://HOST/m.mar", {}, "HOST-headers", '{"%": "x"}'),
    ("https://HOST/m.mar", {}, "HOST-headers", '{"Authorization: Bearer %": ""}'),
    ("s3://bucket/m", {**_S3, "AWS_SECRET_ACCESS_KEY": "mine"}, "AWS_ENDPOINT_URL", "http://u:%@HOST"),
    ("s3://bucket/m", {**_S3, "AWS_SECRET_ACCESS_KEY": "mine"}, "AWS_ENDPOINT_URL", "http://u:pa/%@HOST"),
    ("s3://bucket/m", {**_S3, "AWS_SECRET_ACCESS_KEY": "mine"}, "S3_ENDPOINT", "u:%@HOST"),
    ("s3://bucket/m", {}, "STORAGE_CONFIG", '{"endpoint_url": "http://u:%@HOST"}'),
    ("hf://owner/model", {}, "HF_ENDPOINT", "http://u:%@HOST"),
    ("gs://bucket/m", {}, "STORAGE_EMULATOR_HOST", "http://u:%@HOST"),
    (
        "https://account.blob.core.windows.net/c/m",
        {"AZURE_STORAGE_ACCESS_KEY": "bWluZQ=="},
        "AZURE_STORAGE_ENDPOINT",
        "http://u:%@HOST",
    ),
    ("https://models.example/m.mar", {}, "HTTPS_PROXY", "http://u:%@HOST"),
    ("https://models.example/m.mar", {}, "HTTPS_PROXY", "http://u:pa/%@HOST"),
    ("s3://bucket/m", {}, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://u:%@HOST/x"),
    (
        "s3://bucket/m",
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://HOST/x"},
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "%",
    ),
    ("gs://bucket/m", {}, "GOOGLE_APPLICATION_CREDENTIALS_JSON", "%"),
]
_STORED = [
    SECRET, f"{SECRET}\n", f"\t{SECRET}\r\n", f"{SECRET}\n{SECRET}", f"a\0{SECRET}", f"{SECRET}ü", f"{SECRET} {SECRET}",
]  # fmt: skip


@pytest.mark.parametrize("value", _STORED, ids=repr)
@pytest.mark.parametrize(("uri", "beside", "name", "form"), _INPUTS)
def test_nothing_that_is_said_has_a_secret(
    uri: str,
    beside: dict[str, str],
    name: str,
    form: str,
    *,
    value: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    host = f"127.0.0.1:{free_port()}"
    text = form.replace("%", json.dumps(value)[1:-1] if form != "%" else value)
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}", "HF_ENDPOINT": f"http://{host}", "AZURE_STORAGE_ENDPOINT": f"http://{host}",
        "AZURE_AUTHORITY_HOST": f"http://{host}", "S3_MAX_ATTEMPTS": "1", "TERMINATION_LOG": str(tmp_path / "reason"),
        **{key: one.replace("HOST", host) for key, one in beside.items()},
        name.replace("HOST", host): text.replace("HOST", host),
    }  # fmt: skip

    source = uri.replace("HOST", host).replace("%", value)
    code = main([source, str(tmp_path / "models")], environment)
    inspection.main([source], environment)

    said = "".join(capfd.readouterr()) + (tmp_path / "reason").read_text()
    assert code > 0
    assert SECRET not in said


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "a\nb"}, "AWS_SECRET_ACCESS_KEY has a line end or another character"),
        ({"AWS_SESSION_TOKEN": "a\0b"}, "AWS_SESSION_TOKEN has a line end or another character"),
        ({"h-headers": '{"X-Key": "a\\nb"}'}, "h-headers has a line end or another character"),
        (
            {"STORAGE_CONFIG": '{"secret_access_key": "a\\nb"}'},
            "secret_access_key in STORAGE_CONFIG has a line end or another character",
        ),
    ],
)
def test_a_secret_that_cannot_be_sent_is_refused_by_its_name(environment: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}"):
        stored(environment)


@pytest.mark.parametrize(("uri", "name"), [("s3://bucket/m", "STORAGE_CONFIG"), ("https://host/m.mar", "host-headers")])
def test_a_secret_that_is_nested_too_deep_is_named(
    uri: str, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    environment = {name: "[" * 100_000, "TERMINATION_LOG": str(tmp_path / "reason")}

    assert main([uri, str(tmp_path / "models")], environment) == UsageError.exit_code
    assert f"{name} is not valid JSON" in capfd.readouterr().err


def test_space_around_a_setting_is_no_part_of_it() -> None:
    assert stored({"AWS_SECRET_ACCESS_KEY": " key\n", "AWS_DEFAULT_REGION": "eu\n"}) == {
        "AWS_SECRET_ACCESS_KEY": "key",
        "AWS_DEFAULT_REGION": "eu",
    }


def test_a_secret_is_hidden_and_what_identifies_it_is_shown() -> None:
    hide = hiding({
        "AWS_ACCESS_KEY_ID": "who-it-is", "AWS_SECRET_ACCESS_KEY": "line-one\nline-two", "HF_TOKEN": "ab",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/token",
    })  # fmt: skip

    said = "who-it-is b'line-one\\nline-two' line-two about /var/token"
    assert hide(said) == "who-it-is b'***\\n***' *** about /var/token"
