"""Asks the storage-initializer whether it would take what the pods of a service give it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from isvc.run.objects import text_of
from isvc_operator.api.names import CONTAINER_INITIALIZER
from isvc_operator.manifests import Manifest, NamedItem
from isvc_operator.resolve.storage.plan import Objects
from storage_initializer.backends.azure_access import azure_access
from storage_initializer.backends.gs_access import gs_access
from storage_initializer.backends.hf import hub_access
from storage_initializer.backends.http import http_access
from storage_initializer.backends.proxies import proxies_of
from storage_initializer.backends.s3_access import s3_access
from storage_initializer.errors import UsageError
from storage_initializer.plan import make_plan
from storage_initializer.schemes import backend_of
from storage_initializer.secrets import hiding
from storage_initializer.uri import Uri

# What each backend makes of a URI and the environment before it connects; others make nothing that may be wrong.
_ACCESS: Final[Mapping[str, Callable[[Uri, Mapping[str, str]], object]]] = {
    "azure": azure_access,
    "gs": lambda _, environment: gs_access(environment),
    "hf": hub_access,
    "http": http_access,
    "s3": lambda uri, environment: s3_access(uri.authority, environment),
}


def refusals_of_download(child: Manifest, objects: Objects, image: str) -> Iterator[str]:
    """Yield why the storage-initializer, if a Deployment has one with this image, would end before it downloads.

    Variables whose objects are in none of the files are left out, and so are those that refer to others.
    """
    pod = child["spec"]["template"]["spec"] if child["kind"] == "Deployment" else {}
    for container in pod.get("initContainers") or ():
        if container.get("name") == CONTAINER_INITIALIZER and container.get("image") == image:
            texts = {item["name"]: _value(item, objects) for item in container.get("env") or ()}
            environment = {name: text for name, text in texts.items() if text is not None and "$(" not in text}
            try:
                plan = make_plan(container["args"], environment)
                for uri in (transfer.source for transfer in plan.transfers):
                    if access := _ACCESS.get(backend_of(uri.text, uri.scheme)):
                        proxies_of(plan.environment)
                        access(uri, plan.environment)
            except UsageError as error:
                yield hiding(environment)(str(error))


def _value(item: NamedItem, objects: Objects) -> str | None:
    return text_of(item["valueFrom"], objects) if "valueFrom" in item else item.get("value", "")
