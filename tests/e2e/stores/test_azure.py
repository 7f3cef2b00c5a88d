"""Azure Blob Storage: its addresses, and every way in which KServe's users give credentials for it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import packed_zip, read_tree
from tests.support.object_stores import azurite, identities, tls
from tests.support.object_stores.proxy import Action, Answer, Decide, Request, Truncate, Without, on, proxy

FILES = {"config.json": b"{}", "odd 50% #ü.bin": b"odd", "weights/1.bin": random.Random(0).randbytes((16 << 20) + 1)}
TENANT, CLIENT = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def azure(home: Path) -> Iterator[azurite.AzureServer]:
    with azurite.running(home / "azure") as server:
        yield server


@pytest.fixture
def container(azure: azurite.AzureServer) -> str:
    """The name of a new container with the folder ``model``, and a neighbour of it."""
    name = f"container-{next(_numbers)}"
    azure.create_bucket(name)
    for key, content in FILES.items():
        azure.put(name, f"model/{key}", content)
    azure.put(name, "model-hf/config.json", b"of another model")
    return name


def https(container: str, path: str = "model") -> str:
    return f"https://{azurite.ACCOUNT}.blob.core.windows.net/{container}/{path}"


def environment_of(url: str) -> dict[str, str]:
    return {"AZURE_STORAGE_ENDPOINT": url, "AZURE_STORAGE_ACCESS_KEY": azurite.KEY}


@contextmanager
def on_the_way(azure: azurite.AzureServer, decide: Decide) -> Iterator[str]:
    """The URL of a proxy before the store."""
    with proxy(azure.url.removesuffix(f"/{azurite.ACCOUNT}"), decide) as between:
        yield f"{between.url}/{azurite.ACCOUNT}"


@pytest.mark.parametrize("form", ["https", "abfs", "abfss"])
def test_each_form_of_an_address_is_read(
    initialize: Initialize, azure: azurite.AzureServer, container: str, models: Path, form: str
) -> None:
    uri = f"{form}://{container}@{azurite.ACCOUNT}.dfs.core.windows.net/model" if form != "https" else https(container)

    outcome = initialize(uri, models, **environment_of(azure.url))

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert outcome.log[1] == f"as the account's key, endpoint {azure.url}"
    assert read_tree(models) == FILES


def test_one_object_is_an_archive(
    initialize: Initialize, azure: azurite.AzureServer, container: str, models: Path
) -> None:
    azure.put(container, "packed/model.zip", packed_zip({"config.json": b"{}"}))

    outcome = initialize(https(container, "packed/model.zip"), models, **environment_of(azure.url))

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == {"config.json": b"{}"}


def test_what_breaks_off_goes_on_from_there(
    initialize: Initialize, azure: azurite.AzureServer, container: str, models: Path
) -> None:
    with on_the_way(azure, on(Truncate(1 << 20), {1}, of=lambda request: "weights" in request.target)) as url:
        outcome = initialize(https(container), models, **environment_of(url))

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == FILES


def test_an_object_that_is_replaced_meanwhile_is_refused(
    initialize: Initialize, azure: azurite.AzureServer, container: str, models: Path
) -> None:
    count = itertools.count(1)

    def decide(request: Request) -> None:
        if request.method == "GET" and "weights" in request.target and next(count) == 2:
            azure.put(container, "model/weights/1.bin", bytes(len(FILES["weights/1.bin"])))

    with on_the_way(azure, decide) as url:
        outcome = initialize(https(container), models, **environment_of(url))

    assert outcome.exit_code == 12
    assert list(models.iterdir()) == []


@contextmanager
def guarded(azure: azurite.AzureServer) -> Iterator[str]:
    """The URL of the store for those with a token of the cloud."""

    def decide(request: Request) -> Action:
        if request.headers.get("authorization") != f"Bearer {identities.ACCESS_TOKEN}":
            return Answer(403, b"<Error><Code>AuthorizationFailure</Code><Message>Who are you?</Message></Error>")
        return Without(frozenset({"authorization"}))

    with on_the_way(azure, decide) as url:
        yield url


@pytest.fixture
def public(azure: azurite.AzureServer) -> str:
    name = f"public-{next(_numbers)}"
    azure.create_bucket(name, public=True)
    azure.put(name, "model/config.json", b"{}")
    return name


@pytest.mark.parametrize("prefix", ["AZURE", "AZ"])
def test_a_service_principal_gets_a_token_for_its_secret(
    initialize: Initialize,
    azure: azurite.AzureServer,
    certificate: tls.Certificate,
    public: str,
    models: Path,
    prefix: str,
) -> None:
    secret = {"TENANT_ID": TENANT, "CLIENT_ID": CLIENT, "CLIENT_SECRET": "the-secret", "SUBSCRIPTION_ID": "s"}
    wanted = {"client_id": CLIENT, "client_secret": "the-secret"}
    with proxy(None, identities.azure_tokens(TENANT, wanted), certificate) as authority, guarded(azure) as url:
        outcome = initialize(
            https(public),
            models,
            **{f"{prefix}_{name}": value for name, value in secret.items()},
            AZURE_STORAGE_ENDPOINT=url,
            AZURE_AUTHORITY_HOST=authority.url,
            AWS_CA_BUNDLE=str(certificate.authority),
        )

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert outcome.log[1] == f"as service principal {CLIENT}, endpoint {url}"
    assert read_tree(models) == {"config.json": b"{}"}


@pytest.mark.parametrize("token", ["of-the-pod", "of-another-pod"])
def test_workload_identity_gets_a_token_for_that_of_the_pod(
    initialize: Initialize,
    azure: azurite.AzureServer,
    certificate: tls.Certificate,
    public: str,
    models: Path,
    tmp_path: Path,
    token: str,
) -> None:
    (tmp_path / "token").write_text(token)
    wanted = {"client_id": CLIENT, "client_assertion": "of-the-pod"}
    with proxy(None, identities.azure_tokens(TENANT, wanted), certificate) as authority, guarded(azure) as url:
        outcome = initialize(
            https(public),
            models,
            AZURE_TENANT_ID=TENANT,
            AZURE_CLIENT_ID=CLIENT,
            AZURE_FEDERATED_TOKEN_FILE=str(tmp_path / "token"),
            AZURE_STORAGE_ENDPOINT=url,
            AZURE_AUTHORITY_HOST=authority.url,
            AWS_CA_BUNDLE=str(certificate.authority),
        )

    if token == "of-the-pod":
        assert (outcome.exit_code, outcome.reason) == (0, "")
        assert read_tree(models) == {"config.json": b"{}"}
    else:
        assert outcome.exit_code == 7
        assert outcome.reason.startswith(f"{https(public)}: no keys for workload identity {CLIENT}: 401 ")
        assert "AADSTS700213" in outcome.reason
        assert token not in outcome.reason


def test_without_credentials_it_is_anonymous(
    initialize: Initialize, azure: azurite.AzureServer, public: str, models: Path
) -> None:
    outcome = initialize(https(public), models, AZURE_STORAGE_ENDPOINT=azure.url)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert outcome.log[1] == f"as anonymous, endpoint {azure.url}"


def test_a_refusal_names_the_identity(
    initialize: Initialize, azure: azurite.AzureServer, container: str, models: Path
) -> None:
    outcome = initialize(https(container), models, AZURE_STORAGE_ENDPOINT=azure.url)

    assert outcome.exit_code == 7
    assert outcome.reason.startswith(f"{https(container)}: the container {container} may not be read as anonymous (")
    assert outcome.reason.endswith("); give it the role Storage Blob Data Reader there, or use other credentials")
    assert "RequestId" not in outcome.reason


def test_a_container_that_is_not_there(initialize: Initialize, azure: azurite.AzureServer, models: Path) -> None:
    outcome = initialize(https("nowhere"), models, **environment_of(azure.url))

    assert (outcome.exit_code, outcome.reason) == (
        5,
        f"{https('nowhere')}: there is no container nowhere at {azure.url}; correct its name or the endpoint",
    )
