"""What ``back`` restores, kept in a ConfigMap beside KServe's manager, so that another machine can go back as well."""

from __future__ import annotations

import json
from typing import Any, Final

from isvc.migrate.names import KSERVE_NAMESPACE, MIGRATION
from isvc.migrate.objects import LiveObjects
from isvc_operator.kube.requests import path_of

WEBHOOKS: Final = "webhookConfigurations"  # by their path
REPLACED: Final = "replacedObjects"  # by their path
CREATED: Final = "createdRuntimes"  # paths, as the keys
REPLICAS: Final = "managerReplicas"  # one entry

_PATH: Final = path_of("ConfigMap", KSERVE_NAMESPACE, MIGRATION)


async def read(objects: LiveObjects, key: str) -> dict[str, Any]:
    found = await objects.get(_PATH)
    text = ((found or {}).get("data") or {}).get(key, "{}")
    kept: dict[str, Any] = json.loads(text)
    return kept


async def add(objects: LiveObjects, key: str, entries: dict[str, Any]) -> None:
    """Keep more under the key; an entry that is kept already stays as it is."""
    known = await read(objects, key)
    if not entries.keys() - known.keys():
        return
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MIGRATION, "namespace": KSERVE_NAMESPACE}}
    if await objects.get(_PATH) is None:
        await objects.create(path_of("ConfigMap", KSERVE_NAMESPACE), manifest)
    await objects.merge(_PATH, {"data": {key: json.dumps({**entries, **known})}})


async def clear(objects: LiveObjects, key: str) -> None:
    """Forget what is kept under the key, as it was restored."""
    if await read(objects, key):
        await objects.merge(_PATH, {"data": {key: None}})
