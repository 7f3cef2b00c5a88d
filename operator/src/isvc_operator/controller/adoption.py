"""Adopts services and children that KServe's controller has managed, and children that were created and not applied.

Server-side apply removes only fields that its own manager has applied before. On a child that another controller has
created, or this operator by a POST, fields that are not rendered would stay. So they become applied fields of ours
first: those that KServe's controller has set, and those that we have set otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from isvc_operator.api.inference_service import KIND
from isvc_operator.api.kinds import Role, with_role
from isvc_operator.api.names import FIELD_MANAGER, FINALIZER_KSERVE, LABEL_SERVICE, route_name
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import Conflict, ObjectNotFound
from isvc_operator.kube.informer.cache import Cache, ObjectKey
from isvc_operator.kube.requests import decode
from isvc_operator.manifests import Manifest, ServiceKey, controller_of, name_of
from isvc_operator.plan.changes import managed_by_kserve

_ATTEMPTS: Final = 3  # to change an object that others change, too

FieldsEntry = Mapping[str, Any]  # an item of metadata.managedFields


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


async def label_children(api: KubeApi, service: Manifest, children: Iterable[Manifest]) -> None:
    """Label children that KServe's controller has created without the service's label, so that the watch reports them.

    From then on they are replaced or deleted like other children. ``children`` are those that are known, the rendered
    and the observed ones. Raises Conflict if somebody changes one at that moment.
    """
    key = ServiceKey(service["metadata"]["namespace"], name_of(service))
    known = {(child["kind"], name_of(child)) for child in children}
    made = {
        (kind.name, route_name(key.name, component)) for kind in with_role(Role.CHILD) for component in kind.unlabelled
    }
    for kind, name in sorted(made - known):
        with suppress(ObjectNotFound):
            found = decode(await api.send(requests.get(kind, key.namespace, name)))
            if controller_of(found).get("uid") == service["metadata"]["uid"]:
                await api.send(requests.patch_metadata(found, {"labels": {LABEL_SERVICE: key.name}}))


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
