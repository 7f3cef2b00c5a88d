"""Reports what is wrong with the objects of the administrator: the operator's ConfigMap, the storage containers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from isvc_operator.api.names import CONFIG_MAP, FIELDS_IGNORED, SETTINGS_IGNORED
from isvc_operator.api.parsing import InvalidObject, parse_storage_container
from isvc_operator.api.storage_container import KIND
from isvc_operator.errors import ConfigError
from isvc_operator.ignored.walker import unknown_fields
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError, NamespaceEnding
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.kube.recording import record
from isvc_operator.kube.requests import decode
from isvc_operator.manifests import Manifest, name_of
from isvc_operator.observe.events import event_on

log = logging.getLogger(__name__)


class IgnoredSettings:
    """Logs settings without an effect, and records Events on their objects. ``home`` is the ConfigMap's namespace."""

    def __init__(self, api: KubeApi, now: Callable[[], str], home: str) -> None:
        self._api = api
        self._now = now
        self._home = home
        self._seen: dict[str, str] = {}  # the versions of the storage containers

    async def of_config_map(self, ignored: Sequence[str]) -> None:
        """Report settings of the ConfigMap; outside of a cluster there is none to record an Event on."""
        if ignored:
            log.warning("%s: these settings have no effect: %s", CONFIG_MAP, "; ".join(ignored))
            await self._record_on_config_map(SETTINGS_IGNORED, _ignored_text(ignored))

    async def of_refused_config(self, problem: str) -> None:
        """Record why the ConfigMap cannot be used."""
        await self._record_on_config_map(ConfigError.reason, problem)

    async def of_storage_containers(self, cache: Cache) -> None:
        """Report fields of the ClusterStorageContainers, once for each version of one."""
        bodies = {name_of(body): body for body in cache.of_kind(KIND)}
        before, self._seen = self._seen, {name: body["metadata"]["resourceVersion"] for name, body in bodies.items()}
        for name, body in bodies.items():
            if before.get(name) == self._seen[name] or not (ignored := _ignored(body)):
                continue
            log.warning("%s %s: these fields have no effect: %s", KIND, name, "; ".join(ignored))
            involved = {"apiVersion": body["apiVersion"], "kind": KIND, "name": name, "uid": body["metadata"]["uid"]}
            await self._record(involved, FIELDS_IGNORED, _ignored_text(ignored))

    async def _record_on_config_map(self, reason: str, message: str) -> None:
        if not self._home:
            return
        involved = {"apiVersion": "v1", "kind": "ConfigMap", "name": CONFIG_MAP, "namespace": self._home}
        with suppress(KubeError):  # kubectl describe shows only Events that have the uid
            found = decode(await self._api.send(requests.get("ConfigMap", self._home, CONFIG_MAP)))
            involved["uid"] = found["metadata"]["uid"]
        await self._record(involved, reason, message)

    async def _record(self, involved: Mapping[str, str], reason: str, message: str) -> None:
        with suppress(NamespaceEnding):  # of the operator, which ends with it
            await record(self._api, event_on(involved, "Warning", reason=reason, message=message, now=self._now()))


def _ignored_text(ignored: Sequence[str]) -> str:
    return f"Ignored: {'; '.join(ignored)}"


def _ignored(container: Manifest) -> list[str]:
    """Return the unknown fields, or why the whole object is not used: it was stored under another CRD."""
    try:
        return unknown_fields(parse_storage_container(container))
    except InvalidObject as error:
        return [str(error)]
