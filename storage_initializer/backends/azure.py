"""Azure Blob Storage: an object, or all objects below a path.

Its addresses are ``https://ACCOUNT.blob.core.windows.net/CONTAINER[/PATH]``, or ``abfs://`` as Hadoop writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore.store import AzureStore

from storage_initializer.backends.azure_access import azure_access
from storage_initializer.backends.proxies import proxies_of
from storage_initializer.backends.store import ONCE, StoreClient, StoreSource, client_options
from storage_initializer.backends.store_errors import StorePlace
from storage_initializer.plan import Plan, Transfer

if TYPE_CHECKING:
    from obstore.store import AzureConfig


def open_source(transfer: Transfer, plan: Plan) -> StoreSource:
    access, proxies = azure_access(transfer.source, plan.environment), proxies_of(plan.environment)
    access.trust.check()
    options = client_options(access.endpoint, access.trust, plan.policy, proxies)
    place = StorePlace(
        kind="Azure Blob Storage",
        noun="container",
        bucket=access.container,
        service=access.endpoint,
        url=f"{access.endpoint}/{access.container}",
        proxy=proxies.proxy_for(urlsplit(access.endpoint)),
        grant="give it the role Storage Blob Data Reader there, or use other credentials",
    )
    config: AzureConfig = {
        "account_name": access.account,
        "container_name": access.container,
        "endpoint": access.endpoint,
        **access.credentials,
    }
    return StoreSource(
        place,
        access.path,
        connect=lambda: StoreClient(
            AzureStore(config=config, client_options=options, retry_config=ONCE), access.identity
        ),
        note=f"endpoint {access.endpoint}{proxies.describe(access.endpoint)}",
    )
