"""Every way in which KServe's users give credentials for Google Cloud Storage, against a store that wants the token
which the cloud has issued for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.stores.conftest import Store
from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import read_tree
from tests.support.object_stores import fake_gcs, identities
from tests.support.object_stores.proxy import Proxy, proxy

FILES = {"config.json": b"{}"}
EMAIL = "models@project.example.com"


@pytest.fixture
def uri(gcs: fake_gcs.GcsServer) -> str:
    return Store("gs", gcs).fill({f"model/{name}": content for name, content in FILES.items()}) + "/model"


@pytest.fixture
def guarded(gcs: fake_gcs.GcsServer) -> Iterator[Proxy]:
    """The store for those with a token."""
    with proxy(gcs.url, identities.bearer()) as guard:
        yield guard


def test_a_service_account_signs_for_its_token(
    initialize: Initialize, guarded: Proxy, uri: str, models: Path, tmp_path: Path
) -> None:
    with proxy(None, lambda request: endpoint(request)) as google:
        account = identities.service_account(tmp_path / "key.json", f"{google.url}/token", EMAIL)
        endpoint = identities.token_endpoint(account)
        outcome = initialize(
            uri, models, STORAGE_EMULATOR_HOST=guarded.url, GOOGLE_APPLICATION_CREDENTIALS=str(account.file)
        )

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert outcome.log[1] == f"as service account {EMAIL}, endpoint {guarded.url}"
    assert read_tree(models) == FILES


def test_a_key_that_the_cloud_does_not_know_is_refused(
    initialize: Initialize, guarded: Proxy, uri: str, models: Path, tmp_path: Path
) -> None:
    with proxy(None, lambda request: endpoint(request)) as google:
        known = identities.service_account(tmp_path / "known.json", f"{google.url}/token", EMAIL)
        other = identities.service_account(tmp_path / "other.json", f"{google.url}/token", EMAIL)
        endpoint = identities.token_endpoint(known)
        outcome = initialize(
            uri, models, STORAGE_EMULATOR_HOST=guarded.url, GOOGLE_APPLICATION_CREDENTIALS=str(other.file)
        )

    assert (outcome.exit_code, outcome.reason) == (
        7,
        f"{uri}: no token for service account {EMAIL} (invalid_grant: Invalid JWT Signature.); "
        "correct the secret with the JSON key",
    )


@pytest.mark.parametrize("content", ["", "{}", "not JSON", '{"type": "service_account"}'])
def test_a_file_that_is_no_key_is_refused(
    initialize: Initialize, guarded: Proxy, uri: str, models: Path, tmp_path: Path, content: str
) -> None:
    (tmp_path / "key.json").write_text(content)

    outcome = initialize(
        uri, models, STORAGE_EMULATOR_HOST=guarded.url, GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "key.json")
    )

    assert outcome.exit_code == 7
    assert outcome.reason.startswith(f"{uri}: no token for the account of {tmp_path}/key.json (")
    assert outcome.reason.endswith("); correct the secret with the JSON key")


def test_workload_identity_gets_the_token_of_the_node(
    initialize: Initialize, guarded: Proxy, uri: str, models: Path
) -> None:
    with proxy(None, identities.metadata_server(EMAIL)) as node:
        outcome = initialize(
            uri, models, STORAGE_EMULATOR_HOST=guarded.url, GCE_METADATA_HOST=node.url.removeprefix("http://")
        )

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert outcome.log[1] == f"as service account {EMAIL}, endpoint {guarded.url}"
    assert read_tree(models) == FILES


def test_anonymous_sends_no_token(initialize: Initialize, gcs: fake_gcs.GcsServer, uri: str, models: Path) -> None:
    with proxy(gcs.url) as between:
        outcome = initialize(uri, models, STORAGE_EMULATOR_HOST=between.url)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert outcome.log[1] == f"as anonymous, endpoint {between.url}"
    assert read_tree(models) == FILES
    assert [request for request in between.requests if "authorization" in request.headers] == []


def test_anonymous_is_named_where_it_is_refused(initialize: Initialize, guarded: Proxy, uri: str, models: Path) -> None:
    outcome = initialize(uri, models, STORAGE_EMULATOR_HOST=guarded.url)

    bucket = uri.split("/")[2]
    assert (outcome.exit_code, outcome.reason) == (
        7,
        f"{uri}: the bucket {bucket} may not be read as anonymous (401); "
        "give it the role roles/storage.objectViewer there, or use other credentials",
    )
