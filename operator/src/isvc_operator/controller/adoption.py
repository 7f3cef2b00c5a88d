"""Adopts services and children that KServe's controller has managed, and children that were created and not applied.

Server-side apply removes only fields that its own manager has applied before. On a child that another controller has
created, or this operator by a POST, fields that are not rendered would stay. So they become applied fields of ours
first: those that KServe's controller has set, and those that we have set otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from isvc_operator.api.inference_service import KIND
from isvc_operator.api.kinds import Role, with_role
from isvc_operator.api.names import FIELD_MANAGER, FINALIZER_KSERVE, LABEL_SERVICE, route_name
from isvc_operator.kube import requests
from isvc_operator.kube.cache import Cache, ObjectKey
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import Conflict, ObjectNotFound
from isvc_operator.kube.nesting import decode
from isvc_operator.manifests import Manifest, ServiceKey, controller_of, name_of

_ATTEMPTS: Final = 3  # to change an object that others change, too

FieldsEntry = Mapping[str, Any]  # an item of metadata.managedFields


def managed_by_kserve(service: Manifest) -> bool:
    """Whether KServe's controller has managed the service: it puts its finalizer on each one."""
    return FINALIZER_KSERVE in (service["metadata"].get("finalizers") or ())


async def release_finalizer(api: KubeApi, cache: Cache, key: ServiceKey) -> None:
    """Remove KServe's finalizer from a service that is being deleted, as its controller may not be installed.

    If it is installed, either of the two removes it. Raises Conflict if the service has changed meanwhile.
    """
    service = cache.get(ObjectKey(KIND, key.namespace, key.name))
    if service is None or not managed_by_kserve(service):
        return
    others = [name for name in service["metadata"]["finalizers"] if name != FINALIZER_KSERVE]
    try:
        await api.send(requests.patch_metadata(service, {"finalizers": others}))
    except ObjectNotFound:
        return


@dataclass
class UnlabelledChildren:
    """Labels children that KServe's controller has created without the service's label, so that the watch reports them.

    From then on they are replaced or deleted like other children. Each service is checked once.
    """

    api: KubeApi
    _checked: set[ServiceKey] = field(default_factory=set)

    async def label(self, key: ServiceKey, service: Manifest, children: Iterable[Manifest]) -> None:
        """Label those that are not among ``children``, the rendered and the observed ones.

        Raises Conflict if somebody changes one at that moment.
        """
        if key in self._checked or not managed_by_kserve(service):
            return
        known = {(child["kind"], name_of(child)) for child in children}
        made = {
            (kind.name, route_name(key.name, component))
            for kind in with_role(Role.CHILD)
            for component in kind.unlabelled
        }
        for kind, name in sorted(made - known):
            await self._label(kind, key, name, service["metadata"]["uid"])
        self._checked.add(key)

    async def _label(self, kind: str, key: ServiceKey, name: str, owner_uid: str) -> None:
        try:
            found = decode(await self.api.send(requests.get(kind, key.namespace, name)))
            if controller_of(found).get("uid") == owner_uid:
                await self.api.send(requests.patch_metadata(found, {"labels": {LABEL_SERVICE: key.name}}))
        except ObjectNotFound:
            return

    def forget(self, key: ServiceKey) -> None:
        """Forget a service."""
        self._checked.discard(key)


async def adopt_fields(api: KubeApi, child: Manifest) -> bool:
    """Become the manager of the fields that the child's creator has set, so that an apply can remove them.

    Returns False if the object does not exist, or is not the service's; of that, only the fields that we have set are
    ours: a service of the same name had it. If ``child`` has no ``replicas``, nobody manages that field afterwards, so
    that it keeps its value. Raises Conflict if somebody keeps changing the object.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(Conflict):  # it has changed since it was read
            return await _adopt_fields(api, child)
    return await _adopt_fields(api, child)


async def _adopt_fields(api: KubeApi, child: Manifest) -> bool:
    metadata = child["metadata"]
    try:
        live = decode(await api.send(requests.get(child["kind"], metadata["namespace"], metadata["name"])))
    except ObjectNotFound:
        return False
    before = live["metadata"].get("managedFields", [])
    after = adopted_fields(before, child)
    if after != before:
        await api.send(requests.patch_metadata(live, {"managedFields": after}))
    return bool(controller_of(live).get("uid") == controller_of(child)["uid"])


def adopted_fields(managed: Sequence[FieldsEntry], child: Manifest) -> list[FieldsEntry]:
    """Merge the ``managedFields`` entries of the child's creator, and our own, into one of ours."""
    owner = f'k:{{"uid":"{controller_of(child)["uid"]}"}}'
    creators = {entry["manager"] for entry in managed if owner in _fields(entry, "f:metadata", "f:ownerReferences")}
    creators.add(FIELD_MANAGER)
    merged = [
        entry
        for entry in managed
        if entry["manager"] in creators and entry["apiVersion"] == child["apiVersion"] and not entry.get("subresource")
    ]
    if not merged:
        return list(managed)
    fields = _union(entry["fieldsV1"] for entry in merged)
    if "replicas" not in child.get("spec", {}):
        fields.get("f:spec", {}).pop("f:replicas", None)
    ours = {**merged[0], "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
    return [ours if entry is merged[0] else entry for entry in managed if entry is merged[0] or entry not in merged]


def _fields(entry: FieldsEntry, *path: str) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = entry.get("fieldsV1", {})
    for name in path:
        fields = fields.get(name, {})
    return fields


def _union(sets: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return every field of the sets; the value of a field is the set of the fields inside it."""
    union: dict[str, Any] = {}
    for fields in sets:
        for name, inside in fields.items():
            union[name] = _union((union.get(name, {}), inside))
    return union
