"""Finds what was deleted while a watch was lost.

The API server ends a watch that has fallen too far behind (410). kopf then lists the kind again and tells what there
is, but not what there is no more; so the cache would keep it for good, and a service that is gone be served for ever.
"""

from __future__ import annotations

import json

from isvc_operator.kube import requests
from isvc_operator.kube.cache import Cache, Manifest, version_of
from isvc_operator.kube.client import KubeApi


async def forget_vanished(api: KubeApi, cache: Cache, kind: str, namespace: str = "") -> list[Manifest]:
    """Forget objects of a kind, of the whole cluster or of one namespace, that the API server has no more.

    Returns them. Raises KubeError where they cannot be listed; then nothing is forgotten.
    """
    version, living = await _list(api, kind, namespace)
    known = [item for item in cache.of_kind(kind) if namespace in ("", item["metadata"].get("namespace"))]
    # What has a newer version than the list was made, or has changed, since.
    gone = [item for item in known if item["metadata"]["uid"] not in living and version_of(item) <= version]
    for item in gone:
        cache.remove(item)
    return gone


async def _list(api: KubeApi, kind: str, namespace: str) -> tuple[int, set[str]]:
    """The list's resource version, and the uids of what is in it."""
    uids: set[str] = set()
    page = ""
    while True:
        answer = json.loads(await api.send(requests.list_metadata(kind, namespace, page)))
        uids.update(item["metadata"]["uid"] for item in answer["items"] or ())
        page = answer["metadata"].get("continue", "")
        if not page:
            return version_of(answer), uids
