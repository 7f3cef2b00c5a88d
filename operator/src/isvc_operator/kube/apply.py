"""Brings the children to what was rendered: applies what differs, deletes what is no longer wanted.

The decision is ``plan`` (pure); ``carry_out`` sends it. A child differs when the digest that we left on it is not the
digest of what is rendered now, or when a field that we set has another value: then someone edited it by hand.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isvc_operator.api.names import ANNOTATION_RENDERED
from isvc_operator.api.quantity import quantity
from isvc_operator.kube import requests
from isvc_operator.kube.adoption import controller_of, remove_autoscaler, take_over
from isvc_operator.kube.cache import Cache, Manifest, ObjectKey, key_of
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import Conflict, KubeError, NotFound
from isvc_operator.kube.requests import ApiRequest

# Of two objects, for each that was observed.
_COMPARISONS = 50


@dataclass(frozen=True)
class Change:
    """One write to a child.

    ``adopts``: the child is the service's, and KServe's controller has made it, or may have. ``frees_replicas``:
    whoever scales it now shall find as many pods as there are.
    """

    request: ApiRequest
    manifest: Manifest
    deletes: bool = False
    adopts: bool = False
    frees_replicas: bool = False


def plan(
    rendered: Sequence[Manifest], observed: Iterable[Manifest], owner_uid: str, *, inherited: bool = False
) -> list[Change]:
    """What to send so that ``observed`` becomes ``rendered``; empty when nothing differs.

    An observed child that ``owner_uid`` does not own is never deleted, and never overwritten by force. ``inherited``:
    KServe's controller has looked after the service, and may have left more than is observed.
    """
    ours = {key_of(child): child for child in observed if _is_owned(child, owner_uid)}
    changes = []
    for manifest in map(_with_digest, rendered):
        known = ours.pop(key_of(manifest), None)
        if known is None or not covers(known, manifest):
            changes.append(_change(manifest, known, inherited=inherited))
    changes += [
        Change(requests.delete(child), child, deletes=True, adopts=_is_kserves(child)) for child in ours.values()
    ]
    return changes


def _change(manifest: Manifest, known: Manifest | None, *, inherited: bool) -> Change:
    request = requests.apply(manifest, force=known is not None)
    if known is None:
        return Change(request, manifest, adopts=inherited)
    # One is what the API server makes of none.
    frees = "replicas" not in manifest["spec"] and known["spec"].get("replicas", 1) != 1
    return Change(request, manifest, adopts=_is_kserves(known), frees_replicas=frees)


def _is_kserves(child: Manifest) -> bool:
    """Whether a child of the service was never rendered here."""
    return ANNOTATION_RENDERED not in (child["metadata"].get("annotations") or {})


async def carry_out(api: KubeApi, cache: Cache, changes: Sequence[Change]) -> None:
    """Send all changes at once; keep the answers. Raises the first failure after all have ended.

    Nothing is sent where another service has one of the children already: raises Conflict.
    """
    for change in changes:
        _check_is_free(change, cache)
    outcomes = await asyncio.gather(*(_send(api, cache, change) for change in changes), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


async def _send(api: KubeApi, cache: Cache, change: Change) -> None:
    try:
        answer = await _answer(api, change)
    except KubeError as error:
        # What was to be deleted is gone, or has given its name to another object: both are well.
        if not (change.deletes and isinstance(error, NotFound | Conflict)):
            raise type(error)(error.status, _explained(change, error)) from error
    if change.deletes:
        cache.remove(change.manifest)
    else:
        cache.put(json.loads(answer))


async def _answer(api: KubeApi, change: Change) -> str:
    if change.adopts and change.manifest["kind"] == "Deployment":
        await remove_autoscaler(api, change.manifest)
    if not change.deletes and (change.adopts or change.frees_replicas):
        await take_over(api, change.manifest)
    try:
        return await api.send(change.request)
    except Conflict:
        # KServe's Ingress has no label that the watch would tell us of it by.
        if change.deletes or not await take_over(api, change.manifest):
            raise
        return await api.send(requests.apply(change.manifest, force=True))


def _check_is_free(change: Change, cache: Cache) -> None:
    """Services whose names make the same children use the same field manager: the API server sees no conflict."""
    key = key_of(change.manifest)
    held = cache.get(key)
    owner = controller_of(held) if held else {}
    service = cache.get(ObjectKey(owner.get("kind", ""), key.namespace, owner.get("name", "")))
    lives = service is not None and service["metadata"].get("uid") == owner.get("uid")
    if lives and owner["uid"] != controller_of(change.manifest).get("uid"):
        raise Conflict(
            409,
            f"{key.kind} {key.name} belongs to InferenceService {owner['name']}; "
            f"rename one of the two, or the predictor of one (spec.predictor.name)",
        )


def _explained(change: Change, error: KubeError) -> str:
    key = key_of(change.manifest)
    if not isinstance(error, Conflict):
        return f"{key.kind} {key.name}: {error}"
    return (
        f"{key.kind} {key.name} exists in namespace {key.namespace} and was not made by this operator ({error}); "
        f"delete or rename it, or rename the InferenceService"
    )


def _is_owned(child: Manifest, owner_uid: str) -> bool:
    return controller_of(child).get("uid") == owner_uid


def _with_digest(manifest: Manifest) -> dict[str, Any]:
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION_RENDERED: digest}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


# --- does an observed object still hold everything that we rendered? -----------------------------------


def covers(observed: Any, rendered: Any) -> bool:
    """Whether every value of ``rendered`` stands in ``observed``, which may hold more (defaults, others' fields)."""
    if rendered is None or observed == rendered:
        return True
    if isinstance(rendered, Mapping):
        if not isinstance(observed, Mapping):
            return _is_zero(rendered) and observed is None
        return all(covers(observed.get(name), value) for name, value in rendered.items())
    if isinstance(rendered, list):
        return _covers_list(observed or [], rendered)
    return _same_value(observed, rendered)


def _covers_list(observed: Any, rendered: Sequence[Any]) -> bool:
    """Objects (containers, ports) may stand among others and in any order; a list of texts (args) is one value."""
    if not isinstance(observed, list):
        return False
    if all(isinstance(item, Mapping) for item in rendered):
        return _covers_objects(observed, rendered)
    return len(observed) == len(rendered) and all(map(covers, observed, rendered))


def _covers_objects(observed: Sequence[Any], rendered: Sequence[Any]) -> bool:
    """Each is looked for from where the one before it was found: most often they stand in the same order.

    Of many that stand in another one, not all are looked for: to apply them once more does no harm.
    """
    found, count, left = 0, len(observed), _COMPARISONS * len(observed)
    for item in rendered:
        turned = (index % count for index in range(found, found + min(count, left)))
        at = next((index for index in turned if covers(observed[index], item)), None)
        if at is None:
            return False
        left -= (at - found) % count + 1
        found = at + 1
    return True


def _same_value(observed: Any, rendered: Any) -> bool:
    if observed is None and _is_zero(rendered):
        return True
    return None not in (left := quantity(observed), right := quantity(rendered)) and left == right


def _is_zero(value: Any) -> bool:
    """The API server leaves out empty values; a rendered one is therefore the same as none."""
    return value in (None, "", 0, False) or value == {} or value == []
