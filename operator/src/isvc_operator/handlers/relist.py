"""Lists the watched kinds at intervals to find objects that were deleted while not watched (``kube/relist.py``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from isvc_operator.handlers.watches import affected_services
from isvc_operator.kube.cache import Cache, ServiceKey, key_of
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.relist import remove_deleted

log = logging.getLogger(__name__)

INTERVAL = 300.0  # seconds

Enqueue = Callable[[ServiceKey], None]


async def relist_forever(api: KubeApi, cache: Cache, enqueue: Enqueue, *, by_namespace: bool) -> None:
    """Queue the services that an unnoticed deletion affects.

    ``by_namespace``: the operator is not allowed to list the whole cluster.
    """
    while True:
        await asyncio.sleep(INTERVAL)
        for kind in cache.kinds():
            for namespace in _namespaces(cache, kind) if by_namespace else ("",):
                await _relist(api, cache, enqueue, kind=kind, namespace=namespace)


async def _relist(api: KubeApi, cache: Cache, enqueue: Enqueue, *, kind: str, namespace: str) -> None:
    try:
        deleted = await remove_deleted(api, cache, kind, namespace=namespace)
    except KubeError as error:
        log.warning("objects of kind %s cannot be listed to find deleted ones: %s", kind, error)
        return
    for body in deleted:
        log.info("%s was deleted while it was not watched", "/".join(key_of(body)))
        for key in affected_services(cache, body):
            enqueue(key)


def _namespaces(cache: Cache, kind: str) -> Iterable[str]:
    """Return the namespaces with an object of the kind; the empty name for cluster-scoped kinds."""
    return sorted({key_of(body).namespace for body in cache.of_kind(kind)})
