"""``gs://BUCKET[/PATH]``: an object, or all objects below a path, of Google Cloud Storage or its emulators."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore.store import GCSStore

from storage_initializer.backends.client import Client
from storage_initializer.backends.google import TokenProvider
from storage_initializer.backends.gs_access import gs_access
from storage_initializer.backends.proxies import proxies_of
from storage_initializer.backends.store import ONCE, StoreClient, StoreSource, client_options
from storage_initializer.backends.store_errors import StorePlace
from storage_initializer.plan import Plan, Transfer

if TYPE_CHECKING:
    from obstore.store import ClientConfig

# For the metadata server, which is on the node or nowhere.
_NEAR_S = 2.0


def open_source(transfer: Transfer, plan: Plan) -> StoreSource:
    bucket = transfer.source.authority
    access, policy, proxies = gs_access(plan.environment), plan.policy, proxies_of(plan.environment)
    access.trust.check()
    client = Client(access.trust, replace(policy, connect_s=min(policy.connect_s, _NEAR_S)), proxies)
    tokens = TokenProvider(access.identity, client, lambda: datetime.now(UTC))
    options = client_options(access.endpoint, access.trust, policy, proxies)
    place = StorePlace(
        kind="Google Cloud Storage",
        bucket=bucket,
        service=access.endpoint,
        url=f"{access.endpoint}/{bucket}",
        proxy=proxies.proxy_for(urlsplit(access.endpoint)),
        grant="give it the role roles/storage.objectViewer there, or use other credentials",
        setting="STORAGE_EMULATOR_HOST",
    )
    return StoreSource(
        place,
        transfer.source.path,
        connect=lambda: _connect(bucket, access.endpoint, tokens, options),
        note=f"endpoint {access.endpoint}{proxies.describe(access.endpoint)}",
    )


def _connect(bucket: str, endpoint: str, tokens: TokenProvider, options: ClientConfig) -> StoreClient:
    """A token is fetched at once, as that shows whether there is a metadata server."""
    anonymous = tokens.current() is None
    store = GCSStore(
        bucket,
        config={"base_url": endpoint, "skip_signature": anonymous},
        client_options=options,
        retry_config=ONCE,
        credential_provider=None if anonymous else tokens,
    )
    return StoreClient(store, tokens, lambda: tokens.failure)
