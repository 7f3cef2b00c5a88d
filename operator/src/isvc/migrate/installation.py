"""Installs the operator from its manifests without starting it, and starts it for the namespaces that it may watch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from isvc.migrate import kept
from isvc.migrate.errors import MigrationRefused
from isvc.migrate.handover import is_complete
from isvc.migrate.names import OPERATOR, OPERATOR_CONTAINER, OPERATOR_NAMESPACE
from isvc.migrate.objects import path, root
from isvc.migrate.session import Session, Step, StepTaken
from isvc_operator.kube.requests import ApiRequest, path_of
from isvc_operator.manifests import Manifest, name_of

_OPERATOR: Final = path_of("Deployment", OPERATOR_NAMESPACE, OPERATOR)
_RUNTIMES: Final = ("ClusterServingRuntime", "ServingRuntime")
_WATCHED: Final = "WATCH_NAMESPACES"


async def install(session: Session, manifests: Iterable[Manifest]) -> None:
    """Apply the manifests; KServe's CRDs stay as they are, and other objects of KServe are kept for ``back``."""
    objects = session.objects
    for manifest in manifests:
        place = await _place(session, manifest)
        live = await objects.get(place)
        if manifest["kind"] == "CustomResourceDefinition" and live is not None:
            continue
        if manifest["kind"] in _RUNTIMES and live is None:
            await kept.add(objects, kept.CREATED, {place: True})
        elif live is not None and manifest["kind"] in _RUNTIMES and place not in await kept.read(objects, kept.CREATED):
            await kept.add(objects, kept.REPLACED, {place: live})
        if place == _OPERATOR:
            replicas = live["spec"].get("replicas", 0) if live else 0
            manifest = {**manifest, "spec": {**manifest["spec"], "replicas": replicas}}
        what = f"{manifest['kind']} {name_of(manifest)} cannot be applied"
        await session.insist(what, partial(objects.apply, place, manifest))
    if await objects.get(_OPERATOR) is None:
        raise MigrationRefused(
            f"there is no Deployment {OPERATOR} in namespace {OPERATOR_NAMESPACE}; give the operator's manifests with "
            "--manifests"
        )


async def uninstall_runtimes(session: Session) -> None:
    """Restore the runtimes that were replaced, and delete those that were added: KServe would select them, too."""
    objects = session.objects
    for place, item in (await kept.read(objects, kept.REPLACED)).items():
        await session.insist(f"{place} cannot be deleted", partial(objects.delete, place))
        await session.insist(f"{place} cannot be restored", partial(objects.create, place.rpartition("/")[0], item))
    for place in await kept.read(objects, kept.CREATED):
        await session.insist(f"{place} cannot be deleted", partial(objects.delete, place))
    for key in (kept.REPLACED, kept.CREATED):
        await kept.clear(objects, key)


async def start_operator(session: Session, namespaces: Sequence[str]) -> None:
    """Start the operator for these namespaces, all of them if none is named, beside those that it watches already."""
    operator = await session.objects.get(_OPERATOR) or {}
    watched = _watched(operator) if operator["spec"].get("replicas", 1) else set(namespaces)
    every = not namespaces or not watched
    value = "" if every else ",".join(sorted(watched | set(namespaces)))
    container = {"name": OPERATOR_CONTAINER, "env": [{"name": _WATCHED, "value": value}]}
    spec = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    await session.objects.merge_lists(_OPERATOR, {"spec": spec})
    await session.until("the operator is not available", lambda: _is_available(session))
    message = f"the operator watches {'all namespaces' if every else value}"
    session.report(StepTaken(Step.OPERATOR_STARTED, message))


async def stop_operator(session: Session) -> None:
    """Scale the operator to zero, and wait until its last pod has ended."""
    operator = await session.objects.get(_OPERATOR)
    if operator is None:
        return
    await session.objects.merge(_OPERATOR, {"spec": {"replicas": 0}})
    labels = ",".join(f"{key}={value}" for key, value in operator["spec"]["selector"]["matchLabels"].items())

    async def has_ended() -> bool:
        return not await session.objects.items("v1", "pods", OPERATOR_NAMESPACE, labels=labels)

    await session.until("the operator's pod does not end", has_ended)
    session.report(StepTaken(Step.OPERATOR_STOPPED, "the operator is scaled to zero"))


async def _is_available(session: Session) -> bool:
    operator = await session.objects.get(_OPERATOR)
    return operator is not None and is_complete(operator)


def _watched(operator: Manifest) -> set[str]:
    containers = operator["spec"]["template"]["spec"]["containers"]
    texts = [
        entry.get("value", "") for item in containers for entry in item.get("env", ()) if entry["name"] == _WATCHED
    ]
    return {name for text in texts for name in text.split(",") if name}


async def _place(session: Session, manifest: Manifest) -> str:
    """Return the path of the object."""
    api, kind = manifest["apiVersion"], manifest["kind"]
    found: Any = json.loads(await session.objects.api.send(ApiRequest("GET", root(api))))
    rows = [row for row in found["resources"] if row["kind"] == kind and "/" not in row["name"]]
    if not rows:
        raise MigrationRefused(f"the cluster does not have the kind {kind} of {api}")
    namespace = manifest["metadata"].get("namespace", "default") if rows[0]["namespaced"] else ""
    return path(api, rows[0]["name"], namespace, name_of(manifest))
