"""An API server in memory, for tests of what the operator sends and of what it makes of the answers.

It is as true as those tests need: creation, after which an object has a manager of its fields, but not their names;
server-side apply of whole objects (the last applied object stands, with what the server adds), merge patches of a
status or of metadata, deletion by uid, lists, Events, and logs. It does not validate, default, or merge field by field;
`tests/integration` runs against the real one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isvc_operator.api.kinds import KINDS, Role, with_role
from isvc_operator.kube.errors import AlreadyExists, Conflict, KubeError, NotOurs, ObjectNotFound
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.kube.requests import MERGE_PATCH, ApiRequest, path_of

Manifest = dict[str, Any]


@dataclass
class Clock:
    """The time, which stands still until a test moves it."""

    time: str

    def __call__(self) -> str:
        return self.time


@dataclass
class Seconds:
    """A clock that counts seconds, when a test lets them pass."""

    passed: float = 0.0

    def __call__(self) -> float:
        return self.passed


@dataclass
class FakeKubeApi:
    """Objects by their path. `calls` has every request; `failing` holds the `(method, target)` that fail, and how.

    `events` are those that the operator recorded, `recorded` has those of others.
    """

    objects: dict[str, Manifest] = field(default_factory=dict)
    events: list[Manifest] = field(default_factory=list)
    recorded: list[Manifest] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)
    calls: list[ApiRequest] = field(default_factory=list)
    failing: dict[tuple[str, str], KubeError] = field(default_factory=dict)
    _versions: itertools.count[int] = field(default_factory=lambda: itertools.count(100))
    _foreign: set[str] = field(default_factory=set)

    async def send(self, request: ApiRequest) -> str:
        """Answer as the API server would; see `KubeApi`."""
        self.calls.append(request)
        if error := self.failing.get((request.method, target_of(request))):
            raise error
        if request.path.endswith("/log"):
            return self._log(request)
        if request.path.endswith("/status"):
            return json.dumps(self._patch_status(request))
        if request.content_type == MERGE_PATCH and ("dryRun", "All") in request.query:
            return json.dumps(merge_patched(self._known(request.path), request.body))
        if request.content_type == MERGE_PATCH:
            return json.dumps(self._patch_metadata(request))
        answers = {"GET": self._get, "PATCH": self._apply, "DELETE": self._delete, "POST": self._create}
        return json.dumps(answers[request.method](request))

    def put(self, manifest: Mapping[str, Any]) -> Manifest:
        """Place an object as another client or a controller would; returns it as it is held."""
        path = _path_of(manifest)
        if path not in self.objects:
            self._foreign.add(path)
        return self._store(path, dict(manifest))

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object as another client would."""
        path = path_of(kind, namespace, name)
        self._foreign.discard(path)
        del self.objects[path]

    def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """The object as it is held now."""
        return self.objects.get(path_of(kind, namespace, name))

    def feed(self, cache: Cache) -> None:
        """Bring the cache up to date, as the watches would."""
        cached = [item for kind in _WATCHED for item in cache.of_kind(kind)]
        for item in cached:
            if _path_of(item) not in self.objects:
                cache.remove(item)
        for item in self.objects.values():
            if item["kind"] in _WATCHED:
                cache.put(item)

    def _get(self, request: ApiRequest) -> Manifest:
        if request.path.endswith("/events"):
            (selector,) = [value for name, value in request.query if name == "fieldSelector"]
            uid = selector.removeprefix("involvedObject.uid=")
            return {"items": [event for event in self.recorded if event["involvedObject"]["uid"] == uid]}
        if "limit" in dict(request.query):
            return self._list(request)
        return self._known(request.path)

    def _list(self, request: ApiRequest) -> Manifest:
        """A list as the API server makes it: of one namespace or of all, selected by a label that objects have."""
        parent, _, plural = request.path.rpartition("/")
        place, _, namespace = parent.partition("/namespaces/")
        kinds = [kind for kind in KINDS if (kind.api_path, kind.plural) == (place, plural)]
        if not kinds:
            raise ObjectNotFound(404, "the server could not find the requested resource")
        label = dict(request.query).get("labelSelector", "")
        items = [
            {name: value for name, value in item.items() if name not in ("apiVersion", "kind")}
            for item in self.objects.values()
            if item["kind"] == kinds[0].name
            and namespace in ("", item["metadata"].get("namespace"))
            and (not label or label in (item["metadata"].get("labels") or {}))
        ]
        return {"kind": f"{kinds[0].name}List", "metadata": {"resourceVersion": "1"}, "items": items}

    def _apply(self, request: ApiRequest) -> Manifest:
        manifest = dict(request.body or {})
        if request.path in self._foreign and ("force", "true") not in request.query:
            raise NotOurs(409, 'conflict with "kubectl": .spec')
        known = self.objects.get(request.path, {})
        if ("dryRun", "All") in request.query:
            return manifest
        if "status" in known:
            manifest["status"] = known["status"]
        return self._store(request.path, manifest)

    def _patch_status(self, request: ApiRequest) -> Manifest:
        path = request.path.removesuffix("/status")
        known = self._known(path)
        body = request.body or {}
        _expect_version(known, body["metadata"])
        return self._store(path, {**known, "status": merge_patched(known.get("status", {}), body["status"])})

    def _patch_metadata(self, request: ApiRequest) -> Manifest:
        known = self._known(request.path)
        patch = (request.body or {})["metadata"]
        _expect_version(known, patch)
        metadata = merge_patched(known["metadata"], patch)
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            return self.objects.pop(request.path)
        return self._store(request.path, {**known, "metadata": metadata})

    def _delete(self, request: ApiRequest) -> Manifest:
        known = self._known(request.path)
        if (request.body or {})["preconditions"]["uid"] != known["metadata"]["uid"]:
            raise Conflict(409, "the UID in the precondition does not match the UID in record")
        self._foreign.discard(request.path)
        del self.objects[request.path]
        return {"kind": "Status", "status": "Success"}

    def _create(self, request: ApiRequest) -> Manifest:
        manifest = dict(request.body or {})
        if request.path.endswith("/events"):
            self.events.append(manifest)
            return manifest
        path = target_of(request)
        if path in self.objects:
            raise AlreadyExists(409, f"{path} already exists")
        entry = {"manager": dict(request.query)["fieldManager"], "operation": "Update", "fieldsV1": {}}
        entries = [{**entry, "apiVersion": manifest["apiVersion"]}]
        return self._store(path, {**manifest, "metadata": {**manifest["metadata"], "managedFields": entries}})

    def _log(self, request: ApiRequest) -> str:
        pod = request.path.removesuffix("/log").rpartition("/")[2]
        query = dict(request.query)
        name = f"{pod}/{query['container']}" + ("/previous" if query["previous"] == "true" else "")
        if name not in self.logs:
            raise ObjectNotFound(404, f"no log of {name}")
        last = self.logs[name].splitlines(keepends=True)[-int(query["tailLines"]) :]
        return "".join(last)[: int(query["limitBytes"])]  # the beginning of the last lines

    def _known(self, path: str) -> Manifest:
        if path not in self.objects:
            raise ObjectNotFound(404, f"{path} not found")
        return self.objects[path]

    def _store(self, path: str, manifest: Manifest) -> Manifest:
        """What the server does to every write: an unchanged object keeps its version, a changed spec is counted."""
        known = self.objects.get(path)
        version = str(next(self._versions))
        metadata = {"uid": f"uid-{version}", **manifest["metadata"]}
        if known is None:
            metadata = {"generation": 1, **metadata, "resourceVersion": version}
        else:
            grown = int(known.get("spec") != manifest.get("spec"))
            metadata["uid"] = known["metadata"]["uid"]
            metadata["generation"] = known["metadata"]["generation"] + grown
            metadata["resourceVersion"] = known["metadata"]["resourceVersion"]
            if known == {**manifest, "metadata": metadata}:
                return known
            metadata["resourceVersion"] = version
        self.objects[path] = {**manifest, "metadata": metadata}
        return self.objects[path]


async def unnoted(*_: object) -> None:
    """What is called with a change that was sent, where nobody notes it."""


def target_of(request: ApiRequest) -> str:
    """The path of the object that is asked for or written, also of one that is created. An Event has any name."""
    if request.method != "POST" or request.path.endswith("/events"):
        return request.path
    return f"{request.path}/{(request.body or {})['metadata']['name']}"


_WATCHED = {kind.name for kind in with_role(Role.SERVICE, Role.CHILD, Role.POD)}


def _expect_version(known: Manifest, metadata: Mapping[str, Any]) -> None:
    if metadata["resourceVersion"] != known["metadata"]["resourceVersion"]:
        raise Conflict(409, "the object has been modified")


def merge_patched(before: Any, patch: Any) -> Any:
    """A JSON merge patch applied, as RFC 7386 defines it."""
    if not isinstance(patch, Mapping):
        return patch
    after = dict(before) if isinstance(before, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = merge_patched(after.get(name), value)
    return after


def _path_of(manifest: Mapping[str, Any]) -> str:
    metadata = manifest["metadata"]
    return path_of(manifest["kind"], metadata.get("namespace", ""), metadata["name"])
