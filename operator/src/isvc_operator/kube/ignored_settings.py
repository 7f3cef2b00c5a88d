"""Reports what has no effect in the objects of the administrator: the operator's ConfigMap, the storage containers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from isvc_operator.api.names import CONFIG_MAP, FIELDS_IGNORED, SETTINGS_IGNORED
from isvc_operator.api.parsing import InvalidObject, parse_storage_container
from isvc_operator.api.storage_container import KIND
from isvc_operator.ignored.walker import unknown_fields
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.manifests import Manifest, name_of
from isvc_operator.observe.events import ignored_event

log = logging.getLogger(__name__)


class IgnoredSettings:
    """Logs settings without an effect, and records an Event on their object. ``home`` is the ConfigMap's namespace."""

    def __init__(self, api: KubeApi, now: Callable[[], str], home: str) -> None:
        self._api = api
        self._now = now
        self._home = home
        self._seen: dict[str, str] = {}  # the versions of the storage containers

    async def of_config_map(self, ignored: Sequence[str]) -> None:
        """Report settings of the ConfigMap; outside of a cluster there is none to record an Event on."""
        involved = {"apiVersion": "v1", "kind": "ConfigMap", "name": CONFIG_MAP, "namespace": self._home}
        if ignored:
            log.warning("%s: these settings have no effect: %s", CONFIG_MAP, "; ".join(ignored))
        if ignored and self._home:
            await self._record(involved, SETTINGS_IGNORED, ignored)

    async def of_storage_containers(self, cache: Cache) -> None:
        """Report fields of the ClusterStorageContainers, once for each version of one."""
        bodies = {name_of(body): body for body in cache.of_kind(KIND)}
        before, self._seen = self._seen, {name: _version(body) for name, body in bodies.items()}
        for name, body in bodies.items():
            if before.get(name) == self._seen[name] or not (ignored := _ignored(body)):
                continue
            log.warning("%s %s: these fields have no effect: %s", KIND, name, "; ".join(ignored))
            involved = {"apiVersion": body["apiVersion"], "kind": KIND, "name": name, "uid": body["metadata"]["uid"]}
            await self._record(involved, FIELDS_IGNORED, ignored)

    async def _record(self, involved: Mapping[str, str], reason: str, ignored: Sequence[str]) -> None:
        try:
            await self._api.send(
                requests.create_event(ignored_event(involved, ignored, reason=reason, now=self._now()))
            )
        except KubeError as error:
            log.warning("no Event is recorded on the %s %s: %s", involved["kind"], involved["name"], error)


def _version(body: Manifest) -> str:
    version: str = body["metadata"]["resourceVersion"]
    return version


def _ignored(container: Manifest) -> list[str]:
    """Return the unknown fields, or why the whole object is not used: it was stored under another CRD."""
    try:
        return unknown_fields(parse_storage_container(container))
    except InvalidObject as error:
        return [str(error)]
