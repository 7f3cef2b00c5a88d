"""No value of a Secret is in anything that the operator writes, whatever is stored where, and whatever fails."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from isvc_operator.errors import OperatorError
from tests.support.builders import a_runtime_body, a_service_body
from tests.support.credentials import GCS_KEY, HTTP_HEADERS, S3_KEYS, a_secret, an_account
from tests.support.reconcile_fixture import Cluster, cluster_with

MARKER = "Geheim42"
_VALUES = [
    MARKER, f"{MARKER}\n", f"a\n{MARKER}", f"http://me:{MARKER}@host:x/", f"//[{MARKER}", json.dumps(MARKER),
    json.dumps([MARKER]), f'{{"{MARKER}": ', "[" * 200 + MARKER, json.dumps({"type": MARKER, "bucket": "b"}),
    json.dumps({"type": "s3", "bucket": "b", "secret_access_key": MARKER}), json.dumps({MARKER: MARKER}),
]  # fmt: skip
_TLS = {"tls.crt": "", "tls.key": "", "ca.crt": ""}
# What a Secret has, and which of its keys has the value; the storage of the service.
_SECRETS: list[tuple[dict[str, str], str, dict[str, Any]]] = [
    *((S3_KEYS, key, {"storageUri": "s3://b/m"}) for key in (*S3_KEYS, "AWS_SESSION_TOKEN", "S3_ENDPOINT")),
    *((GCS_KEY, key, {"storageUri": "gs://b/m"}) for key in GCS_KEY),
    (HTTP_HEADERS, "headers", {"storageUri": "https://models.example.com/m"}),
    ({}, "HF_TOKEN", {"storageUri": "hf://o/m"}),
    ({}, "AZURE_STORAGE_ACCESS_KEY", {"storageUri": "https://a.blob.core.windows.net/c/m"}),
    ({}, "default", {"storage": {"path": "m"}}),
    ({}, "mine", {"storage": {"path": "m", "key": "mine"}}),
    *((_TLS, key, {"storageUri": "pvc://claim"}) for key in _TLS),
]  # fmt: skip


def holding(data: dict[str, str], storage: dict[str, Any], stored: bytes, key: str) -> Cluster:
    """A service whose account, storage and TLS refer to one Secret."""
    annotations = {"serving.kserve.io/storageSecretName": "mine", "isvc-operator.io/tls-secret": "mine"}
    secured = annotations if "tls.key" in data else {"serving.kserve.io/storageSecretName": "mine"}
    cluster = cluster_with(a_service_body(model={"storageUri": None, **storage}, annotations=secured), a_runtime_body())
    cluster.api.put(an_account("mine"))
    secret = a_secret("mine", data)
    cluster.api.put({**secret, "data": {**secret["data"], key: base64.b64encode(stored).decode()}})
    return cluster


async def said_of(cluster: Cluster) -> str:
    """What a reconcile writes, a status at least, and the error that it raises."""
    raised = ""
    try:
        await cluster.reconcile()
    except OperatorError as error:
        raised = str(error)
    written = json.dumps([call.body for call in cluster.api.calls if call.method != "GET"], default=str)
    assert "conditions" in written
    return written + raised


@pytest.mark.parametrize("value", [*(value.encode() for value in _VALUES), MARKER.encode() + b"\xff"], ids=repr)
@pytest.mark.parametrize(("data", "key", "storage"), _SECRETS)
async def test_whatever_is_stored_is_in_nothing_that_is_written(
    data: dict[str, str], key: str, storage: dict[str, Any], value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert MARKER not in await said_of(holding(data, storage, value, key)) + caplog.text


@pytest.mark.parametrize("value", [value for value in _VALUES if not value.startswith(MARKER)], ids=repr)
async def test_what_is_stored_for_a_host_and_is_none_is_not_quoted(value: str) -> None:
    cluster = holding(HTTP_HEADERS, {"storageUri": "https://models.example.com/m"}, value.encode(), "https-host")

    assert MARKER not in await said_of(cluster)
    assert cluster.condition("Ready")["reason"] == "InvalidCredentials"


async def test_a_bug_that_quotes_a_value_is_reported_without_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError(f"Invalid header value {MARKER!r}")

    monkeypatch.setattr("isvc_operator.decide.render", fail)

    assert MARKER not in await said_of(holding(S3_KEYS, {"storageUri": "s3://b/m"}, b"x", "S3_ENDPOINT")) + caplog.text
    assert "ValueError" in caplog.text


@pytest.mark.parametrize(
    "uri",
    [
        "https://u:%@host:x/m", "https://u:pa/%@host/m", "https://u:%@[::1/m", "http://u:%@/m", "ftp://u:%@host/m",
        "s3://u:%@b!/m", "hf://u:%@owner/m", "pvc://u:%@claim/m", "abfs://u:%@account/m",
    ],
)  # fmt: skip
async def test_no_reason_has_the_password_of_a_uri(uri: str) -> None:
    cluster = cluster_with(a_service_body(model={"storageUri": uri.replace("%", MARKER)}), a_runtime_body())

    await cluster.reconcile()

    assert cluster.condition("Ready")["status"] == "False"
    assert MARKER not in json.dumps([cluster.service["status"], cluster.api.events])
