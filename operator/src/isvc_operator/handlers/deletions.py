"""Looks now and then whether all that the watches have told of is still there: see ``kube/vanished.py``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from isvc_operator.handlers.watches import concerned
from isvc_operator.kube.cache import Cache, ServiceKey, key_of
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.vanished import forget_vanished

log = logging.getLogger(__name__)

EVERY = 300.0  # seconds


async def follow_deletions(
    api: KubeApi, cache: Cache, enqueue: Callable[[ServiceKey], None], *, by_namespace: bool
) -> None:
    """Queue the services that an unnoticed deletion concerns.

    ``by_namespace``: the operator may not list the whole cluster.
    """
    while True:
        await asyncio.sleep(EVERY)
        for kind in cache.kinds():
            for namespace in _namespaces(cache, kind) if by_namespace else ("",):
                await _look(api, cache, enqueue, kind, namespace)


async def _look(api: KubeApi, cache: Cache, enqueue: Callable[[ServiceKey], None], kind: str, namespace: str) -> None:
    try:
        gone = await forget_vanished(api, cache, kind, namespace)
    except KubeError as error:
        log.warning("objects of kind %s cannot be listed, to see what was deleted: %s", kind, error)
        return
    for body in gone:
        log.info("%s was deleted while it was not watched", "/".join(key_of(body)))
        for key in concerned(cache, body):
            enqueue(key)


def _namespaces(cache: Cache, kind: str) -> Iterable[str]:
    """Those with an object of the kind; the empty name for kinds of the cluster."""
    return sorted({key_of(body).namespace for body in cache.of_kind(kind)})
