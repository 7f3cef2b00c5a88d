"""What KServe's controller has left on objects, and this operator has to take over or undo.

Server-side apply drops only those fields that its own manager has applied before. A child that another controller made
keeps all that is not rendered, so what that one has set is made ours first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from isvc_operator.api.names import FIELD_MANAGER, FINALIZER_KSERVE
from isvc_operator.kube import requests
from isvc_operator.kube.cache import Cache, Manifest, ObjectKey, ServiceKey
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import Conflict, NotFound

Entry = Mapping[str, Any]


async def let_go(api: KubeApi, cache: Cache, key: ServiceKey) -> None:
    """Take KServe's finalizer from a service that is being deleted: its controller is not there to do that.

    Where it is there, either of the two does it. Raises Conflict where the service has changed meanwhile.
    """
    service = cache.get(ObjectKey("InferenceService", key.namespace, key.name))
    if service is None or not was_kserves(service):
        return
    others = [name for name in service["metadata"]["finalizers"] if name != FINALIZER_KSERVE]
    try:
        await api.send(requests.patch_metadata(service, {"finalizers": others}))
    except NotFound:
        return


def was_kserves(service: Manifest) -> bool:
    """Whether KServe's controller has looked after the service."""
    return FINALIZER_KSERVE in (service["metadata"].get("finalizers") or ())


def controller_of(child: Manifest) -> Mapping[str, Any]:
    """The owner reference of the object's controller; empty where it has none."""
    owners = child["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


async def take_over(api: KubeApi, child: Manifest) -> bool:
    """Make those fields ours that the controller which made the child has set; so an apply of ``child`` can drop them.

    ``replicas`` that ``child`` does not have become nobody's, and stay as they are. False where the object is not
    there, or not the service's.
    """
    uid, metadata = controller_of(child)["uid"], child["metadata"]
    while True:
        try:
            live = json.loads(await api.send(requests.get(child["kind"], metadata["namespace"], metadata["name"])))
        except NotFound:
            return False
        if controller_of(live).get("uid") != uid:
            return False
        before = live["metadata"].get("managedFields", [])
        after = taken_over(before, child)
        try:
            if after != before:
                await api.send(requests.patch_metadata(live, {"managedFields": after}))
        except Conflict:
            continue  # it has changed since it was read
        return True


def taken_over(managed: Sequence[Entry], child: Manifest) -> list[Entry]:
    """``managedFields`` with the entries of whoever made the child the service's, and our own, as one of ours."""
    owner = f'k:{{"uid":"{controller_of(child)["uid"]}"}}'
    makers = {entry["manager"] for entry in managed if owner in _field(entry, "f:metadata", "f:ownerReferences")}
    moved = [
        entry
        for entry in managed
        if entry["manager"] in makers and entry["apiVersion"] == child["apiVersion"] and not entry.get("subresource")
    ]
    if not moved:
        return list(managed)
    fields = _union(entry["fieldsV1"] for entry in moved)
    if "replicas" not in child["spec"]:
        fields.get("f:spec", {}).pop("f:replicas", None)
    ours = {**moved[0], "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
    return [ours if entry is moved[0] else entry for entry in managed if entry is moved[0] or entry not in moved]


def _field(entry: Entry, *path: str) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = entry.get("fieldsV1", {})
    for name in path:
        fields = fields.get(name, {})
    return fields


def _union(sets: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Every field that is in one of the sets, each of which has the fields inside a field as its value."""
    union: dict[str, Any] = {}
    for fields in sets:
        for name, inside in fields.items():
            union[name] = _union((union.get(name, {}), inside))
    return union


async def remove_autoscaler(api: KubeApi, deployment: Manifest) -> None:
    """Delete the HorizontalPodAutoscaler that KServe's controller made for a Deployment: nobody keeps it any more."""
    await _remove_owned(api, "HorizontalPodAutoscaler", deployment, controller_of(deployment)["uid"])


async def remove_ingress(api: KubeApi, service: Manifest) -> None:
    """Delete the Ingress that KServe's controller made for a service that wants none; no label tells a watch of it."""
    await _remove_owned(api, "Ingress", service, service["metadata"]["uid"])


async def _remove_owned(api: KubeApi, kind: str, namesake: Manifest, owner_uid: str) -> None:
    metadata = namesake["metadata"]
    try:
        found = json.loads(await api.send(requests.get(kind, metadata["namespace"], metadata["name"])))
        if controller_of(found).get("uid") == owner_uid:
            await api.send(requests.delete(found))
    except (NotFound, Conflict):  # it is gone, or somebody else's by now
        return
