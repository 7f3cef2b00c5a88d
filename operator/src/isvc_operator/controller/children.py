"""Orders the changes of a service's children, and sends those that are due to the API server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from isvc_operator.api.kinds import kind_named
from isvc_operator.controller.adoption import adopt_fields, label_children
from isvc_operator.controller.memory import ServiceMemory
from isvc_operator.controller.restores import Restores
from isvc_operator.decide import Decision, Inputs
from isvc_operator.ignored.written import fields_in_service
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import AlreadyExists, Conflict, KubeError, NotOurs, ObjectNotFound, RequestRefused
from isvc_operator.kube.informer.cache import Cache, ObjectKey, key_of
from isvc_operator.kube.requests import decode
from isvc_operator.limits import NAMED
from isvc_operator.manifests import Manifest, controller_of, name_of
from isvc_operator.observe.conditions import Contested
from isvc_operator.plan.changes import ChildAction, ChildChange, managed_by_kserve
from isvc_operator.plan.diff import matches
from isvc_operator.plan.traffic import TrafficPlan, plan_traffic

# Seconds for which an ingress controller may still use the routes that it has read before.
DRAIN_SECONDS = 15.0
# Seconds. So often one child of an optional kind whose CRD is not installed is tried again, for all services together:
# nothing has to be watched or granted to find out when a CRD is installed.
MISSING_SECONDS = 10.0


@dataclass(frozen=True)
class Applied:
    """How far the changes of a service have got.

    ``held``: traffic stays on old components until others are rolled out. ``requeue_after`` counts seconds. ``missing``
    are the optional kinds that are rendered and whose CRD is not installed. ``contested`` are the children that do not
    stay as rendered. ``fight`` counts the seconds until one is restored that others change; 0 if one was just now.
    ``created``: some were created just now. ``complete``: all changes were sent that were not restored too often.
    """

    held: bool = False
    requeue_after: float | None = None
    missing: frozenset[str] = frozenset()
    contested: Sequence[Contested] = ()
    fight: float = 0.0
    created: bool = False
    complete: bool = False


class Children:
    """Applies and deletes the children of services.

    ``clock`` counts seconds, ``now`` returns RFC 3339 times; ``restored`` gets each restored kind.
    """

    def __init__(
        self,
        api: KubeApi,
        cache: Cache,
        *,
        clock: Callable[[], float],
        now: Callable[[], str],
        restored: Callable[[str], None],
    ) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._restores = Restores(api, cache, clock, now, restored)
        self._missing: dict[str, float] = {}  # until when the API server is known to lack a kind

    async def apply(self, inputs: Inputs, decision: Decision, memory: ServiceMemory) -> Applied:
        """Send the changes that are due; raises KubeError if one of them fails."""
        changes = await self._restores.due(decision.changes, memory.sent)
        children, observed = decision.children, inputs.children
        traffic = plan_traffic(name_of(inputs.body), changes, rendered=children, observed=observed)
        due, drained_in = due_changes(traffic, memory, self._clock())
        missing = self._lacking(due)
        sending = [change for change in due if change.deletes or change.manifest["kind"] not in missing]
        note = partial(self._restores.note, memory.sent)
        lacking = await apply_changes(self._api, self._cache, sending, note)
        self._missing.update(dict.fromkeys(lacking, self._clock() + MISSING_SECONDS))
        if managed_by_kserve(inputs.body) and not memory.labelled:
            await label_children(self._api, inputs.body, (*children, *observed))
            memory.labelled = True
        missing = self._lacking(due)
        contested, until = self._restores.contested(children, decision.changes, memory.sent)
        # No watch reports what was sent just now (its response is in the cache), and that is what the others wait for.
        follows = 0.0 if sending and len(due) < len(changes) else None
        times = (follows, drained_in, MISSING_SECONDS if missing else None, until)
        return Applied(
            held=traffic.held,
            requeue_after=min((seconds for seconds in times if seconds is not None), default=None),
            missing=missing,
            contested=contested,
            fight=until if until and not sending and any(item.is_fight for item in contested) else 0.0,
            created=any(change.action is ChildAction.CREATE for change in sending),
            complete=len(due) == len(changes),
        )

    def _lacking(self, changes: Iterable[ChildChange]) -> frozenset[str]:
        """Return the kinds of the changes whose CRD is not installed. Deletions do no harm."""
        kinds = {change.manifest["kind"] for change in changes if not change.deletes}
        return frozenset(kind for kind in kinds if self._clock() < self._missing.get(kind, 0))


def due_changes(traffic: TrafficPlan, memory: ServiceMemory, now: float) -> tuple[Sequence[ChildChange], float | None]:
    """Return the changes that can be sent now, and the seconds that are left of a drain period.

    After a restart of the operator the drain period starts again.
    """
    if not traffic.drained:
        memory.drained_since = None
        return traffic.now, None
    if memory.drained_since is None:
        memory.drained_since = now
    if (left := memory.drained_since + DRAIN_SECONDS - now) > 0:
        return traffic.now, left
    memory.drained_since = None  # what is removed next is drained for a period of its own
    return [*traffic.now, *traffic.drained], None


# Called with each change that has not failed, and with the child as it was before and is now; None if there is none.
SentChange = Callable[[ChildChange, Manifest | None, Manifest | None], Awaitable[None]]


_UNPROCESSABLE = 422
_KIND_ENDS = "custom resource definition is terminating"


async def apply_changes(api: KubeApi, cache: Cache, changes: Sequence[ChildChange], sent: SentChange) -> frozenset[str]:
    """Send the changes that go first, then all others; raises the first failure after all of these have finished.

    They are sent concurrently, and the results are cached. Nothing is sent if one of the children belongs to another
    service: raises NotOurs. Returns the optional kinds whose CRD is not installed.
    """
    for change in changes:
        _check_ownership(change, cache)
    first = [change for change in changes if change.goes_first]
    others = [change for change in changes if not change.goes_first]
    return await _apply_all(api, cache, first, sent) | await _apply_all(api, cache, others, sent)


async def _apply_all(api: KubeApi, cache: Cache, changes: Sequence[ChildChange], sent: SentChange) -> frozenset[str]:
    outcomes = await asyncio.gather(*(_apply(api, cache, change, sent) for change in changes), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return frozenset(kind for kind in outcomes if isinstance(kind, str))


async def _apply(api: KubeApi, cache: Cache, change: ChildChange, sent: SentChange) -> str | None:
    """Send a change; return the kind of one that has no CRD installed."""
    before = cache.get(key_of(change.manifest))
    try:
        response = await _send(api, change)
    except KubeError as error:
        if _is_unknown_kind(change, error):
            return key_of(change.manifest).kind
        # The object to delete does not exist any more, or another one has its name: there is nothing to do.
        if not (change.deletes and isinstance(error, ObjectNotFound | Conflict)):
            raise error.reworded(_message(change, error, cache)) from error
    child = None if change.deletes else decode(response)
    if child is None:
        cache.remove(change.manifest)
    else:
        cache.put(child)
    await sent(change, before, child)
    return None


def _is_unknown_kind(change: ChildChange, error: KubeError) -> bool:
    """Whether a child could not be created or applied because the API server lacks the kind.

    While the kind is being removed the API server forbids to create objects, and says so in the message alone.
    """
    optional = kind_named(change.manifest["kind"]).optional
    lacks = isinstance(error, ObjectNotFound) or (error.status == 403 and _KIND_ENDS in str(error))
    return optional and lacks and not change.deletes


async def _send(api: KubeApi, change: ChildChange) -> str:
    if change.deletes:
        return await api.send(requests.delete(change.manifest))
    await _check_image_volumes(api, change.manifest)
    if change.action is ChildAction.CREATE:
        return await _create(api, change)
    if change.adopts or change.frees_replicas:
        await adopt_fields(api, change.manifest)
    return await api.send(requests.apply(change.manifest, force=True))


async def _create(api: KubeApi, change: ChildChange) -> str:
    """Create the child. An object of the service that exists without being known is applied instead.

    It is KServe's Ingress, which lacks the label by which children are watched, or the child itself: the response to
    its creation was lost, or the watch is late. Or a service of the same name has left it. Raises NotOurs for an object
    of anybody else, which would be deleted with the service even if no field of it differs.
    """
    existing, manifest = await _find(api, change.manifest) if change.adopts else None, change.manifest
    if change.starts_with is not None:
        manifest = {**manifest, "spec": {**manifest["spec"], "replicas": change.starts_with}}
    if existing is None:
        try:
            return await api.send(requests.create(manifest))
        except AlreadyExists:
            existing = await _find(api, change.manifest)
    if existing is not None:
        _check_owner(decode(existing), change.manifest)
        if matches(decode(existing), change.manifest):
            return existing
    owned = existing is not None and await adopt_fields(api, change.manifest)
    return await api.send(requests.apply(change.manifest, force=owned))


async def _check_image_volumes(api: KubeApi, manifest: Manifest) -> None:
    """Raise RequestRefused if the API server would leave out an image volume, as it does silently where it
    has none: the server would start without a model.

    Only a manifest with such volumes costs a request, which stores nothing.
    """
    if not (wanted := _image_volumes(manifest)):
        return
    stored = decode(await api.send(requests.apply(manifest, force=True, dry_run=True)))
    if missing := wanted - _image_volumes(stored):
        raise RequestRefused(
            _UNPROCESSABLE,
            f"the cluster has no image volumes, and leaves out {', '.join(sorted(missing))}; write oci+modelcar:// (or "
            "ociModelMode of storageInitializer), or turn on Kubernetes' feature gate ImageVolume",
        )


def _image_volumes(manifest: Manifest) -> set[str]:
    pod = manifest.get("spec", {}).get("template", {}).get("spec", {})
    return {volume["name"] for volume in pod.get("volumes") or () if "image" in volume}


async def _find(api: KubeApi, manifest: Manifest) -> str | None:
    try:
        return await api.send(requests.get(*key_of(manifest)))
    except ObjectNotFound:
        return None


def _check_owner(existing: Manifest, manifest: Manifest) -> None:
    owner, own = controller_of(existing), controller_of(manifest)
    if (owner.get("kind"), owner.get("name")) != (own["kind"], own["name"]):
        raise NotOurs(409, f"it belongs to {owner['kind']} {owner['name']}" if owner else "it has no owner")


def _check_ownership(change: ChildChange, cache: Cache) -> None:
    """Raise NotOurs for a child of another service: with one field manager the API server sees no conflict."""
    key = key_of(change.manifest)
    existing = cache.get(key)
    owner = controller_of(existing) if existing else {}
    service = cache.get(ObjectKey(owner.get("kind", ""), key.namespace, owner.get("name", "")))
    exists = service is not None and service["metadata"].get("uid") == owner.get("uid")
    if exists and owner["uid"] != controller_of(change.manifest).get("uid"):
        raise NotOurs(
            409,
            f"{key.kind} {key.name} belongs to InferenceService {owner['name']}; "
            f"rename one of the two, or the predictor of one (spec.predictor.name)",
        )


# In the words of a POST, and of a server-side apply.
_UNKNOWN: Final = re.compile(r'unknown field "([^"]+)"|\.(spec\.\S+): field not declared in schema')


def _message(change: ChildChange, error: KubeError, cache: Cache) -> str:
    key = key_of(change.manifest)
    if not isinstance(error, NotOurs):
        return f"{key.kind} {key.name}: {error}{_in_service(change, error, cache)}"
    return (
        f"{key.kind} {key.name} exists in namespace {key.namespace} and was not made by this operator ({error}); "
        f"delete or rename it, or rename the InferenceService"
    )


def _in_service(change: ChildChange, error: KubeError, cache: Cache) -> str:
    """Return where the service has the unknown fields that an error is about; empty if it has none of them."""
    owner = controller_of(change.manifest)
    service = cache.get(ObjectKey(owner["kind"], key_of(change.manifest).namespace, owner["name"])) or {}
    paths = [created or applied for created, applied in _UNKNOWN.findall(str(error))]
    fields = dict.fromkeys(field for path in paths for field, _ in fields_in_service(path, service))
    return f" (in the {owner['kind']}: {', '.join(islice(fields, NAMED))})" if fields else ""
