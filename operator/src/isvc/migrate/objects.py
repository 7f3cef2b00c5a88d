"""Reads and writes objects of any kind by their paths, with the operator's client."""

from __future__ import annotations

import json
from dataclasses import dataclass

from isvc.migrate.names import MIGRATION
from isvc.source.inputs import list_path, read_if_any
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import ObjectNotFound
from isvc_operator.kube.requests import APPLY_PATCH, MERGE_PATCH, ApiRequest, path_of
from isvc_operator.manifests import SET_BY_SERVER, Manifest, name_of

_KUBECTL = "kubectl"  # the manager of fields that `kubectl apply --server-side` sets
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"


def path(api: str, plural: str, namespace: str = "", name: str = "") -> str:
    """Return the path of an object or a collection; ``api`` is ``v1`` or ``group/version``."""
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{root(api)}{scope}/{plural}" + (f"/{name}" if name else "")


def root(api: str) -> str:
    return f"/apis/{api}" if "/" in api else f"/api/{api}"


@dataclass(frozen=True)
class LiveObjects:
    """The objects of a cluster. Every method raises KubeError."""

    api: KubeApi

    async def get(self, path: str) -> Manifest | None:
        return await read_if_any(self.api, path)

    async def items(self, api: str, plural: str, namespace: str = "", *, labels: str = "") -> list[Manifest]:
        """Return all objects of a kind; none if the cluster does not have the kind."""
        return await list_path(self.api, path(api, plural, namespace), api, labels=labels)

    async def merge(self, path: str, patch: Manifest) -> Manifest:
        """Replace fields; None removes one."""
        return await self._patch(path, patch, MERGE_PATCH)

    async def merge_lists(self, path: str, patch: Manifest) -> Manifest:
        """Replace fields, also of items of lists, by the lists' keys."""
        return await self._patch(path, patch, _STRATEGIC_PATCH)

    async def apply(self, path: str, manifest: Manifest) -> Manifest:
        """Apply server-side, by force, as kubectl would: what is applied with kubectl later has no conflict with it."""
        return await self._patch(path, manifest, APPLY_PATCH, ("force", "true"), manager=_KUBECTL)

    async def create(self, collection: str, manifest: Manifest) -> None:
        """Create the object as it was, without what the API server had set."""
        metadata = {name: value for name, value in manifest["metadata"].items() if name not in SET_BY_SERVER}
        body = {name: value for name, value in manifest.items() if name != "status"} | {"metadata": metadata}
        await self.api.send(ApiRequest("POST", collection, (("fieldManager", MIGRATION),), body))

    async def delete(self, path: str) -> None:
        try:
            await self.api.send(ApiRequest("DELETE", path))
        except ObjectNotFound:
            return

    async def _patch(
        self, path: str, body: Manifest, kind: str, *query: tuple[str, str], manager: str = MIGRATION
    ) -> Manifest:
        request = ApiRequest("PATCH", path, (("fieldManager", manager), *query), body, kind)
        answer: Manifest = json.loads(await self.api.send(request))
        return answer


def path_to(manifest: Manifest) -> str:
    """Return the path of an object of a kind that the operator knows."""
    return path_of(manifest["kind"], manifest["metadata"]["namespace"], name_of(manifest))


def named(service: Manifest) -> str:
    """Return what people call a service: its namespace and its name."""
    return f"{service['metadata']['namespace']}/{name_of(service)}"
