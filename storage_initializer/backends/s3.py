"""``s3://BUCKET[/PATH]``: an object, or all objects below a path, of Amazon S3 or a compatible store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from obstore.store import S3Store

from storage_initializer.backends.aws import found_on_node
from storage_initializer.backends.client import Client
from storage_initializer.backends.proxies import proxies_of
from storage_initializer.backends.s3_access import S3Access, s3_access
from storage_initializer.backends.store import ONCE, StoreClient, StoreSource, client_options
from storage_initializer.backends.store_errors import StorePlace
from storage_initializer.plan import Plan, Transfer

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config

# A service on the node responds at once, or not at all.
_NEAR_S = 1.0


def open_source(transfer: Transfer, plan: Plan) -> StoreSource:
    bucket = transfer.source.authority
    access, proxies = s3_access(bucket, plan.environment), proxies_of(plan.environment)
    access.trust.check()
    node = Client(access.trust, replace(plan.policy, connect_s=_NEAR_S, read_s=_NEAR_S), proxies)
    options = client_options(access.bucket_url, access.trust, plan.policy, proxies)
    place = StorePlace(
        kind="S3",
        bucket=bucket,
        service=access.service,
        url=access.bucket_url,
        region=access.region,
        proxy=proxies.proxy_for(urlsplit(access.bucket_url)),
        grant="allow it s3:GetObject and s3:ListBucket there, or use other credentials",
    )
    return StoreSource(
        place,
        transfer.source.path,
        connect=lambda: _connect(access, options, node),
        note=f"{access}{proxies.describe(access.bucket_url)}",
    )


def _connect(access: S3Access, options: ClientConfig, node: Client) -> StoreClient:
    identity = found_on_node(access.identity, node) if access.identity.node else access.identity
    config = {
        "bucket": access.bucket,
        "region": access.region,
        # This name wins over what obstore finds in the environment.
        "aws_endpoint_url_s3": access.bucket_url if access.virtual else access.service,
        "virtual_hosted_style_request": access.virtual,
        **identity.settings,
    }
    keys = identity.keys
    store = S3Store(
        config=cast("S3Config", config),
        client_options=options,
        retry_config=ONCE,
        # Not in the configuration, where a session token of the environment would be added.
        credential_provider=None if keys is None else lambda: keys,
    )
    return StoreClient(store, identity)
