"""The container and the identity for an address of Azure's, from the environment. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from storage_initializer.backends.trust import Trust, trust_of
from storage_initializer.errors import UsageError
from storage_initializer.schemes import azure_address
from storage_initializer.uri import Uri, checked_url

if TYPE_CHECKING:
    from obstore.store import AzureConfig

_TENANT = re.compile(r"[A-Za-z0-9.-]+")  # it becomes a part of a path


@dataclass(frozen=True)
class AzureAccess:
    """``identity`` is for the log; ``credentials`` is how obstore is told it."""

    account: str
    container: str
    path: str
    endpoint: str
    identity: str
    trust: Trust
    credentials: AzureConfig = field(repr=False)


def azure_access(uri: Uri, environment: Mapping[str, str]) -> AzureAccess:
    """Return where the objects are, and who reads them. The variables have KServe's names."""
    address = azure_address(uri)
    endpoint = environment.get("AZURE_STORAGE_ENDPOINT") or f"https://{address.host}"
    identity, credentials = _identity(environment)
    return AzureAccess(
        account=address.account,
        container=address.container,
        path=address.path,
        endpoint=checked_url("AZURE_STORAGE_ENDPOINT", endpoint),
        identity=identity,
        trust=trust_of(environment),
        credentials=credentials,
    )


def _identity(environment: Mapping[str, str]) -> tuple[str, AzureConfig]:
    """Return the first that is complete: the account's key, a service principal, workload identity; else none."""
    if key := environment.get("AZURE_STORAGE_ACCESS_KEY"):
        return "the account's key", {"account_key": _checked(key)}
    tenant, client, secret = (
        environment.get(f"AZURE_{name}") or environment.get(f"AZ_{name}", "")
        for name in ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET")
    )
    if tenant and not _TENANT.fullmatch(tenant):
        raise UsageError(f"AZURE_TENANT_ID is {tenant!r}, which is not a tenant; write its GUID or its domain")
    ids: AzureConfig = {"tenant_id": tenant, "client_id": client}
    if authority := environment.get("AZURE_AUTHORITY_HOST"):
        # Azure's own libraries take a host as well.
        url = authority if "://" in authority else f"https://{authority}"
        ids["authority_host"] = checked_url("AZURE_AUTHORITY_HOST", url)
    if tenant and client and secret:
        return f"service principal {client}", {**ids, "client_secret": secret}
    token_file = environment.get("AZURE_FEDERATED_TOKEN_FILE")
    if tenant and client and token_file:
        return f"workload identity {client}", {**ids, "federated_token_file": token_file}
    return "anonymous", {"skip_signature": True}


def _checked(key: str) -> str:
    try:
        base64.b64decode(key, validate=True)
    except ValueError:
        raise UsageError(
            "AZURE_STORAGE_ACCESS_KEY is not an account's key, which is base64; store it again as it was issued"
        ) from None
    return key
