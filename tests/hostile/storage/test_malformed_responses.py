"""Listings, keys and tokens that are not what they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.storage.stores import ONCE
from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import read_tree
from tests.support.object_stores.proxy import Answer, proxy

DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"7", DEEP, b'{"items": 7}', b'{"items": [7]}', b'{"items": [{}]}', b'{"items": {"name": "x"}}',
     b'{"items": [{"name": "m/x", "size": -1}]}'],
)  # fmt: skip
def test_a_listing_that_is_none_is_refused(initialize: Initialize, models: Path, body: bytes) -> None:
    with proxy(None, lambda _: Answer(200, body)) as server:
        outcome = initialize("gs://models/m", models, STORAGE_EMULATOR_HOST=server.url, **ONCE)

    assert (outcome.exit_code, read_tree(models)) == (17, {})


def test_a_refusal_that_is_none_is_told_as_it_is(initialize: Initialize, models: Path) -> None:
    with proxy(None, lambda _: Answer(403, DEEP)) as server:
        outcome = initialize("gs://models/m", models, STORAGE_EMULATOR_HOST=server.url, **ONCE)

    assert outcome.exit_code == 7
    assert len(outcome.reason) < 500


@pytest.mark.parametrize(
    "body",
    [b"", b"7", DEEP, b"{}", b'{"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "c", "Expiration": "soon"}',
     b'{"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "c", "Expiration": "2099-01-01T00:00:00"}'],
)  # fmt: skip
def test_keys_that_are_none_are_refused(initialize: Initialize, models: Path, tmp_path: Path, body: bytes) -> None:
    (tmp_path / "token").write_text("who-i-am")
    with proxy(None, lambda _: Answer(200, body)) as agent:
        environment = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": agent.url,
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"),
            **ONCE,
        }
        outcome = initialize("s3://models/m", models, AWS_ENDPOINT_URL=agent.url, **environment)

    assert outcome.exit_code == 17
    assert "the response of the credentials' agent is malformed" in outcome.reason


@pytest.mark.parametrize("body", [b"7", DEEP, b"{}", b'{"access_token": 7, "expires_in": 9}',
                                  b'{"access_token": "a", "expires_in": "9"}'])  # fmt: skip
def test_a_token_that_is_none_is_refused(initialize: Initialize, models: Path, body: bytes) -> None:
    with proxy(None, lambda _: Answer(200, body)) as metadata:
        host = metadata.url.removeprefix("http://")
        outcome = initialize("gs://models/m", models, GCE_METADATA_HOST=host, **ONCE)

    assert outcome.exit_code == 7
    assert "no token for the service account of the metadata server" in outcome.reason


@pytest.mark.parametrize(
    ("uri", "variable"),
    [
        ("gs://models/m", "STORAGE_EMULATOR_HOST"),
        ("abfs://models@account.dfs.core.windows.net/m", "AZURE_STORAGE_ENDPOINT"),
    ],
)
@pytest.mark.parametrize("status", [301, 400])
def test_a_store_without_regions_has_no_bucket_in_another_one(
    initialize: Initialize, models: Path, uri: str, variable: str, status: int
) -> None:
    body = b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>"
    with proxy(None, lambda _: Answer(status, body)) as server:
        outcome = initialize(uri, models, **{variable: server.url}, **ONCE)

    assert (outcome.exit_code, "region" in outcome.reason) == (17, False)
