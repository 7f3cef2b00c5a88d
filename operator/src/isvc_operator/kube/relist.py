"""Finds objects that were deleted while they were not watched, by listing their kind again.

The API server ends a watch that has fallen too far behind (410). kopf then lists the kind and reports the objects that
exist, but not those that were deleted meanwhile. Without this the cache would keep those forever.
"""

from __future__ import annotations

import json

from isvc_operator.kube import requests
from isvc_operator.kube.cache import Cache, version_of
from isvc_operator.kube.client import KubeApi
from isvc_operator.manifests import Manifest


async def remove_deleted(api: KubeApi, cache: Cache, kind: str, *, namespace: str = "") -> list[Manifest]:
    """Remove objects of a kind that the API server does not list any more from the cache, and return them.

    Raises KubeError if the kind cannot be listed; nothing is removed then. No ``namespace`` means the whole cluster.
    """
    version, existing = await _list(api, kind, namespace)
    known = [item for item in cache.of_kind(kind) if namespace in ("", item["metadata"].get("namespace"))]
    # An object with a newer version was created, or has changed, after the list was made.
    deleted = [item for item in known if item["metadata"]["uid"] not in existing and version_of(item) <= version]
    for item in deleted:
        cache.remove(item)
    return deleted


async def _list(api: KubeApi, kind: str, namespace: str) -> tuple[int, set[str]]:
    """Return the resource version of the list, and the uids of its items."""
    uids: set[str] = set()
    page = ""
    while True:
        response = json.loads(await api.send(requests.list_metadata(kind, namespace, page)))
        uids.update(item["metadata"]["uid"] for item in response["items"] or ())
        page = response["metadata"].get("continue", "")
        if not page:
            return version_of(response), uids
