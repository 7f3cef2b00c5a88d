"""Asks the API server what it would store, and decides about each service as the operator would then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from isvc.diff.changes import Actor, Change, change_of, fields_changed, merged
from isvc.diff.errors import DiffFailed
from isvc.run.check import refused_child
from isvc.run.documents import Documents
from isvc.run.place import Located, Place
from isvc.source.inputs import ClusterInputs, read_if_any, read_inputs
from isvc_operator.api import inference_service
from isvc_operator.api.kinds import kind_named
from isvc_operator.api.names import CONFIG_MAP
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.decide import decide
from isvc_operator.errors import ConfigError
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import ObjectNotFound, RequestRefused
from isvc_operator.kube.objects import ObjectReader
from isvc_operator.kube.requests import decode
from isvc_operator.manifests import LAST_APPLIED, Manifest, ServiceKey, annotations_of, merge_patch, name_of
from isvc_operator.plan.changes import ChildAction
from isvc_operator.plan.diff import differences
from isvc_operator.resolve.storage.plan import ObjectReference, json_object

_DRY: Final = (("dryRun", "All"), ("fieldValidation", "Strict"), ("fieldManager", "isvc-diff"))
_FORBIDDEN: Final = 403


@dataclass
class DryRun:
    """``home`` is the operator's namespace. ``notes`` are for people: what could not be asked, and was computed.

    ``refused`` is what the API server would refuse of the objects that the operator would create or change.
    """

    api: KubeApi
    reader: ObjectReader
    home: str
    notes: list[str] = field(default_factory=list)
    refused: list[Located] = field(default_factory=list)

    async def changes(self, given: Documents) -> AsyncIterator[Change]:
        """Yield what applying the documents changes, and what the operator then changes, if anything.

        Raises DiffFailed for what the API server would refuse or a service that could not be served, and KubeError.
        """
        pairs = []
        for body in given.bodies:
            with _named(given, body):
                pairs.append(await self._applied(body))
        for before, after in pairs:
            if change := change_of(Actor.APPLY, before, after):
                yield change
        namespaces = sorted({service.metadata.namespace or "" for service in given.services})
        inputs = await read_inputs(self.api, namespaces, await self._config(), self.reader)
        self.notes += [f"you may not read {kind}: the operator may know more" for kind in inputs.hidden]
        inputs.use(after for _, after in pairs)
        for body in given.objects:
            metadata = body["metadata"]
            self.reader.remember(metadata["namespace"], ObjectReference(body["kind"], metadata["name"]), body)
        for _, after in pairs:
            if after["kind"] == inference_service.KIND:
                with _named(given, after):
                    place = given.place(after["kind"], after["metadata"].get("namespace"), name_of(after))
                    async for change in self._children(inputs, after, place):
                        yield change

    async def _applied(self, body: Manifest) -> tuple[Manifest | None, Manifest]:
        """Return the object as it is, and as it would be once the body is applied."""
        kind, namespace = body["kind"], body["metadata"].get("namespace") or ""
        kind_path = requests.path_of(kind, namespace if kind_named(kind).namespaced else "")
        path = f"{kind_path}/{name_of(body)}"
        before = await read_if_any(self.api, path)
        if before is None:
            asked, computed = requests.ApiRequest("POST", kind_path, _DRY, body), body
        else:
            last = json_object(annotations_of(before).get(LAST_APPLIED) or "{}")
            if last is None:
                raise DiffFailed(
                    f"{kind} {name_of(body)} has no JSON object in its annotation {LAST_APPLIED}; remove the annotation"
                )
            patch = merge_patch(last, body, before)
            asked = requests.ApiRequest("PATCH", path, _DRY, patch, requests.MERGE_PATCH)
            computed = _changed(before, patch)
        what = f"{kind} {name_of(body)}"
        stored = await self._stored(what, asked)
        if stored is None:
            self.notes.append(f"you may not ask what applying {what} does: its defaults are not known here")
        return before, stored or computed

    async def _stored(self, what: str, request: requests.ApiRequest) -> Manifest | None:
        """Return what the API server would store; None if the caller may not ask it."""
        try:
            stored: Manifest = decode(await self.api.send(request))
        except RequestRefused as error:
            if error.status != _FORBIDDEN:
                raise DiffFailed(f"{what} would be refused: {error}") from error
            return None
        return stored

    async def _config(self) -> OperatorConfig:
        try:
            found = decode(await self.api.send(requests.get("ConfigMap", self.home, CONFIG_MAP)))
            return parse_config(found.get("data") or {})
        except ObjectNotFound:
            self.notes.append(f"there is no ConfigMap {CONFIG_MAP} in namespace {self.home}: its defaults are used")
        except RequestRefused:
            self.notes.append(
                f"you may not read ConfigMap {CONFIG_MAP} in namespace {self.home}: its defaults are used"
            )
        except ConfigError as error:
            raise DiffFailed(f"{error}; isvc doctor tells more") from error
        return OperatorConfig()

    async def _children(self, known: ClusterInputs, after: Manifest, place: Place) -> AsyncIterator[Change]:
        """Yield what the operator changes once the service is what it is ``after`` the files are applied."""
        inputs = await known.of(ServiceKey(after["metadata"]["namespace"], name_of(after)))
        if inputs is None:
            return
        decision = decide(inputs)
        if decision.problem:
            raise DiffFailed(f"InferenceService {name_of(after)} could not be served: {decision.problem.message}")
        owned = {(child["kind"], name_of(child)): child for child in inputs.own_children}
        for planned in decision.changes:
            child = planned.manifest
            live = owned.get((child["kind"], name_of(child)))
            if refused := refused_child(child, place):
                self.refused += refused
                continue
            if planned.action is ChildAction.DELETE:
                change = change_of(Actor.OPERATOR, child, None)
            elif live is None:
                change = change_of(Actor.OPERATOR, None, child)
            else:
                change = await self._updated(live, child)
            if change:
                yield change

    async def _updated(self, live: Manifest, child: Manifest) -> Change | None:
        """Return what an update of a child changes: as the API server says, or the fields that differ."""
        asked = requests.apply(child, force=True, dry_run=True)
        if stored := await self._stored(f"{child['kind']} {name_of(child)}", asked):
            return change_of(Actor.OPERATOR, live, stored)
        return fields_changed(Actor.OPERATOR, live, differences(live, child))


@contextmanager
def _named(given: Documents, body: Manifest) -> Iterator[None]:
    """Name the file of an object in errors about it."""
    try:
        yield
    except DiffFailed as error:
        file = given.place(body["kind"], body["metadata"].get("namespace"), name_of(body)).file
        raise DiffFailed(f"{file}: {error}") from error


def _changed(before: Manifest, patch: Manifest) -> Manifest:
    """Return the object with a merge patch, and with another generation if its spec is another one."""
    after = merged(before, patch)
    if after.get("spec") == before.get("spec"):
        return after
    generation = before["metadata"].get("generation", 0) + 1
    return {**after, "metadata": {**after["metadata"], "generation": generation}}
