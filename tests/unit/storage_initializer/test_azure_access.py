"""An address of Azure's and the environment to a container and who reads it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from storage_initializer.backends.azure_access import azure_access
from storage_initializer.errors import UsageError
from storage_initializer.uri import parse_uri

PRINCIPAL = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s3cret"}
HTTPS = "https://me.blob.core.windows.net/models/bert"


@pytest.mark.parametrize(
    ("uri", "endpoint"),
    [
        (HTTPS, "https://me.blob.core.windows.net"),
        ("HTTPS://Me.DFS.core.windows.net:443/models/bert", "https://me.blob.core.windows.net"),
        ("https://me.z01.blob.storage.azure.net/models/bert", "https://me.z01.blob.storage.azure.net"),
        ("abfs://models@me.dfs.core.windows.net/bert", "https://me.blob.core.windows.net"),
        ("abfss://models@me.dfs.core.chinacloudapi.cn/bert", "https://me.blob.core.chinacloudapi.cn"),
    ],
)
def test_where_the_container_is(uri: str, endpoint: str) -> None:
    access = azure_access(parse_uri(uri), {})

    assert (access.account, access.container, access.path, access.endpoint) == ("me", "models", "bert", endpoint)


@pytest.mark.parametrize(
    ("environment", "identity"),
    [
        ({}, "anonymous"),
        ({"AZURE_CLIENT_ID": "c"}, "anonymous"),
        (PRINCIPAL, "service principal c"),
        ({"AZ_TENANT_ID": "t", "AZ_CLIENT_ID": "c", "AZ_CLIENT_SECRET": "s3cret"}, "service principal c"),
        (
            {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_FEDERATED_TOKEN_FILE": "/token"},
            "workload identity c",
        ),
        ({**PRINCIPAL, "AZURE_STORAGE_ACCESS_KEY": "czNjcmV0"}, "the account's key"),
    ],
)
def test_who_reads_it(environment: Mapping[str, str], identity: str) -> None:
    access = azure_access(parse_uri(HTTPS), environment)

    assert access.identity == identity
    assert "s3cret" not in repr(access)


@pytest.mark.parametrize("authority", ["login.chinacloudapi.cn", "https://login.chinacloudapi.cn/"])
def test_an_authority_is_a_host_or_its_url(authority: str) -> None:
    access = azure_access(parse_uri(HTTPS), {**PRINCIPAL, "AZURE_AUTHORITY_HOST": authority})

    assert access.credentials.get("authority_host") == "https://login.chinacloudapi.cn"


@pytest.mark.parametrize("tenant", ["a b", "t/../u", "té"])
def test_a_tenant_is_a_guid_or_a_domain(tenant: str) -> None:
    with pytest.raises(UsageError) as raised:
        azure_access(parse_uri(HTTPS), {**PRINCIPAL, "AZURE_TENANT_ID": tenant})

    assert str(raised.value) == f"AZURE_TENANT_ID is {tenant!r}, which is not a tenant; write its GUID or its domain"
