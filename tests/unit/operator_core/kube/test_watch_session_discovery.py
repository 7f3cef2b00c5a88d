"""What the session tells kopf of kinds and namespaces, and what it does when CRDs and namespaces come and go."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import kopf
import pytest
from kopf._cogs.clients import auth, scanning, watching
from kopf._cogs.structs.credentials import Vault, VaultKey
from kopf._cogs.structs.references import Insights, NamespaceName, Resource
from kopf._core.reactor.observation import revise_namespaces

from isvc_operator.api.kinds import KINDS, ResourceKind, kind_named
from isvc_operator.kube.errors import ObjectNotFound, RequestRefused
from isvc_operator.kube.informer.kopf_settings import use_settings
from isvc_operator.kube.informer.watch_session import WatchSession
from isvc_operator.kube.informer.watching import LATEST, Collection, Watching
from isvc_operator.kube.requests import ApiRequest
from isvc_operator.manifests import Manifest

PODS, ROUTES, RUNTIMES = (kind_named(kind) for kind in ("Pod", "HTTPRoute", "ClusterServingRuntime"))
CRD, NAMESPACE = kind_named("CustomResourceDefinition"), kind_named("Namespace")
CRDS, NAMESPACES = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/api/v1/namespaces"
ALL_ROUTES = "/apis/gateway.networking.k8s.io/v1/httproutes"
ROUTES_CRD = "httproutes.gateway.networking.k8s.io"


@dataclass
class Cluster:
    """An API server: the names of its objects by path; `watched` paths get the events that a test sends."""

    objects: dict[str, list[str]] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    watched: dict[str, asyncio.Queue[bytes]] = field(default_factory=dict)
    asked: list[ApiRequest] = field(default_factory=list)

    async def send(self, request: ApiRequest) -> str:
        self.asked.append(request)
        if request.path in self.missing:
            raise ObjectNotFound(404, "page not found")
        if request.path in self.refused:
            raise RequestRefused(403, "forbidden")
        items = [{"metadata": {"name": name}} for name in self.objects.get(request.path, ())]
        return json.dumps({"metadata": {"resourceVersion": "1"}, "items": items})

    @asynccontextmanager
    async def stream(self, request: ApiRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(request)
        events = self.watched[request.path] = asyncio.Queue()
        try:
            yield self._events(events)
        finally:
            del self.watched[request.path]

    async def _events(self, events: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
        while True:
            yield await events.get()

    def tell(self, path: str, change: str, name: str, **metadata: Any) -> None:
        """Send an event, as an API server does that was asked for the metadata alone."""
        body = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"name": name, "resourceVersion": "2", **metadata},
        }
        event = json.dumps({"type": change, "object": body}, separators=(",", ":"))
        self.watched[path].put_nowait(event.encode() + b"\n")


@dataclass
class Taken:
    listed_last: dict[str, tuple[int, int]] = field(default_factory=dict)

    def listed(self, collection: Collection, objects: Sequence[Manifest], version: int) -> None:
        self.listed_last[collection.path] = len(objects), version

    def changed(self, change: str, body: Manifest) -> None:
        raise AssertionError(change)


@dataclass
class Seen:
    """A session, what its handler was told, and what kopf got of its watches: types and names."""

    session: WatchSession
    taken: Taken
    events: list[Any] = field(default_factory=list)
    raw: list[Any] = field(default_factory=list)

    async def list(self, path: str) -> Any:
        """What kopf gets for a list."""
        async with await self.session.request("get", f"https://kubernetes{path}?limit=500") as response:
            return await response.json()

    async def watch(self, kind: ResourceKind, namespace: str | None = None) -> None:
        """Watch as kopf does, until cancelled."""
        await use(self.session)
        resource = Resource(group=kind.group, version=kind.version, plural=kind.plural, namespaced=kind.namespaced)
        place: Any = namespace
        async for event in watching.infinite_watch(settings=the_settings(), resource=resource, namespace=place):
            if isinstance(event, watching.Bookmark):
                self.events.append(event)
            else:
                self.raw.append(event)
                self.events.append((event["type"], event["object"]["metadata"].get("name")))


async def use(session: WatchSession) -> None:
    """Let kopf send its requests of this task by the session."""
    vault = Vault()
    await vault.populate({VaultKey("session"): session.login})
    auth.vault_var.set(vault)


def the_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    use_settings(settings)
    return settings


def watched_by(cluster: Cluster, kinds: tuple[ResourceKind, ...] = KINDS) -> Seen:
    taken = Taken()
    return Seen(WatchSession(Watching(cluster, lambda: 0.0, lambda: 0.0, kinds=kinds), taken), taken)


@asynccontextmanager
async def beside(*running: Any) -> AsyncIterator[None]:
    """Run these until the block ends."""
    tasks = [asyncio.create_task(item) for item in running]
    await settled()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


# --- kinds ----------------------------------------------------------------------------------------------


async def test_kopf_finds_each_kind_without_a_request_to_the_api_server() -> None:
    cluster = Cluster()
    await use(watched_by(cluster).session)

    found = await scanning.scan_resources(settings=the_settings(), logger=logging.getLogger("kopf"))

    assert cluster.asked == []
    assert {
        (item.group, item.version, item.plural, item.kind, item.singular, item.namespaced, item.preferred, item.verbs)
        for item in found
    } == {
        (
            kind.group,
            kind.version,
            kind.plural,
            kind.name,
            kind.name.lower(),
            kind.namespaced,
            # Of a group with two versions each kind has one; what names it to kopf has its version.
            kind.group != "serving.kserve.io" or kind.version == "v1beta1",
            frozenset({"list", "watch", "patch"}),
        )
        for kind in KINDS
    }


async def test_a_kind_that_may_not_be_watched_is_empty_and_silent() -> None:
    cluster = Cluster({"/api/v1/pods": ["a"]})
    seen = watched_by(cluster, (RUNTIMES,))
    async with beside(seen.watch(PODS)):
        assert await seen.list("/api/v1/pods") == {"metadata": {"resourceVersion": "0"}, "items": []}
        assert seen.events == [watching.Bookmark.LISTED]

    assert (cluster.asked, seen.taken.listed_last) == ([], {})


@pytest.mark.parametrize("method", ["post", "patch", "put", "delete"])
async def test_kopf_may_not_write(method: str) -> None:
    with pytest.raises(NotImplementedError, match=f"^kopf wants to {method} https://kubernetes/api/v1/pods"):
        await watched_by(Cluster()).session.request(method, "https://kubernetes/api/v1/pods")


async def test_a_list_is_the_handlers_and_kopf_gets_its_version() -> None:
    seen = watched_by(Cluster({"/api/v1/pods": ["a", "b"]}))

    assert await seen.list("/api/v1/pods") == {"metadata": {"resourceVersion": "1"}, "items": []}
    assert seen.taken.listed_last == {"/api/v1/pods": (2, 1)}
    assert seen.session.watch_of(Collection(PODS)).known.is_set()


# --- CRDs -----------------------------------------------------------------------------------------------


async def test_a_kind_without_a_crd_holds_up_nothing_and_is_watched_once_it_is_installed() -> None:
    cluster = Cluster(missing={ALL_ROUTES})
    seen = watched_by(cluster)
    watch = seen.session.watch_of(Collection(ROUTES))
    async with beside(seen.watch(CRD), seen.watch(ROUTES)):
        assert (watch.known.is_set(), watch.is_missing) == (True, True)
        assert seen.taken.listed_last == {ALL_ROUTES: (0, LATEST)}

        cluster.missing.clear()
        cluster.tell(CRDS, "ADDED", "grpcroutes.gateway.networking.k8s.io")
        await settled()
        assert ALL_ROUTES not in cluster.watched
        cluster.tell(CRDS, "ADDED", ROUTES_CRD)
        await settled()
        assert ALL_ROUTES in cluster.watched
        assert (watch.is_listed, watch.is_missing) == (True, False)


async def test_a_crd_that_was_installed_while_nobody_watched_is_noticed_by_the_list() -> None:
    cluster = Cluster({CRDS: [ROUTES_CRD]}, missing={ALL_ROUTES})
    seen = watched_by(cluster)
    async with beside(seen.watch(ROUTES)):
        cluster.missing.clear()
        assert await seen.list(CRDS) == {"metadata": {"resourceVersion": "1"}, "items": []}
        await settled()
        assert ALL_ROUTES in cluster.watched


async def test_of_changes_of_crds_kopf_gets_only_that_there_were_some() -> None:
    """At any other event it would discover its kinds again, and read from it what the metadata lacks."""
    cluster = Cluster()
    seen = watched_by(cluster)
    async with beside(seen.watch(CRD)):
        for change in ("ADDED", "MODIFIED", "DELETED"):
            cluster.tell(CRDS, change, ROUTES_CRD)
        await settled()

    assert seen.events == [watching.Bookmark.LISTED, *[("BOOKMARK", None)] * 3]


@pytest.mark.parametrize("kind", [CRD, NAMESPACE], ids=lambda kind: kind.name)
async def test_of_what_tells_only_what_there_is_the_metadata_is_enough(kind: ResourceKind) -> None:
    cluster, accepted = Cluster(), "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
    seen = watched_by(cluster)
    async with beside(seen.watch(kind), seen.watch(PODS)):
        pass

    path = f"{kind.api_path}/{kind.plural}"
    assert {(item.path, "watch" in dict(item.query), item.accept) for item in cluster.asked} == {
        (path, False, accepted.format("List")),
        (path, True, accepted.format("")),
        ("/api/v1/pods", False, "application/json"),
        ("/api/v1/pods", True, "application/json"),
    }


# --- namespaces -----------------------------------------------------------------------------------------


async def test_the_namespaces_are_known_once_they_are_listed_and_kopf_gets_them() -> None:
    seen = watched_by(Cluster({NAMESPACES: ["team-a", "other"]}))
    assert (seen.session.namespaces_known.is_set(), seen.session.namespaces()) == (False, frozenset())

    found = await seen.list(NAMESPACES)

    assert [item["metadata"]["name"] for item in found["items"]] == ["team-a", "other"]
    assert (seen.session.namespaces_known.is_set(), seen.session.namespaces()) == (True, frozenset({"team-a", "other"}))
    assert seen.taken.listed_last == {}


async def test_until_namespaces_may_be_listed_they_are_not_known() -> None:
    seen = watched_by(Cluster(refused={NAMESPACES}))
    async with beside(seen.watch(NAMESPACE)):
        assert not seen.session.namespaces_known.is_set()


async def test_namespaces_come_and_go_and_take_their_objects_along() -> None:
    cluster = Cluster({NAMESPACES: ["team-a"], "/api/v1/namespaces/team-a/pods": ["a", "b"]})
    seen = watched_by(cluster)
    async with beside(seen.watch(NAMESPACE)):
        await seen.list("/api/v1/namespaces/team-a/pods")
        await seen.list("/api/v1/pods")
        cluster.tell(NAMESPACES, "ADDED", "team-b")
        await settled()
        assert seen.session.namespaces() == {"team-a", "team-b"}
        assert seen.taken.listed_last == {"/api/v1/namespaces/team-a/pods": (2, 1), "/api/v1/pods": (0, 1)}

        cluster.tell(NAMESPACES, "DELETED", "team-a")
        await settled()
        assert seen.session.namespaces() == {"team-b"}
        assert seen.taken.listed_last == {"/api/v1/namespaces/team-a/pods": (0, LATEST), "/api/v1/pods": (0, 1)}

    listed = [(None, "team-a"), watching.Bookmark.LISTED]
    assert seen.events == [*listed, ("ADDED", "team-b"), ("DELETED", "team-a")]


async def test_kopf_is_told_what_a_later_list_of_namespaces_shows() -> None:
    """kopf passes over what it lists but at first: the namespaces were there, or came, in a gap of its watch."""
    cluster = Cluster({NAMESPACES: ["team-a", "team-b"]})
    seen = watched_by(cluster)
    await seen.list(NAMESPACES)
    cluster.objects[NAMESPACES] = ["team-b", "team-c"]
    async with beside(seen.watch(NAMESPACE)):
        assert seen.session.namespaces() == {"team-b", "team-c"}

    listed = [(None, "team-b"), (None, "team-c"), watching.Bookmark.LISTED]
    assert seen.events == [*listed, ("ADDED", "team-c"), ("DELETED", "team-a")]
    insights = Insights(namespaces={NamespaceName("team-a"), NamespaceName("team-b")})
    revise_namespaces(insights=insights, namespaces=["team-*"], raw_events=[item for item in seen.raw if item["type"]])
    assert insights.namespaces == {"team-b", "team-c"}


async def test_what_is_in_a_namespace_that_is_gone_is_gone() -> None:
    """kopf may have events of its objects yet."""
    seen = watched_by(Cluster({NAMESPACES: ["team-a"]}))
    assert not seen.session.is_gone("team-b")  # nothing is known of namespaces
    await seen.list(NAMESPACES)

    assert [seen.session.is_gone(name) for name in ("team-a", "team-b", "")] == [False, True, False]


async def test_nobody_waits_for_what_is_in_a_namespace_that_is_gone() -> None:
    cluster = Cluster({NAMESPACES: ["team-a"]})
    seen = watched_by(cluster)
    await seen.list(NAMESPACES)
    watch = seen.session.watch_of(Collection(PODS, "team-a"))
    assert not watch.known.is_set()
    cluster.objects.clear()

    await seen.list(NAMESPACES)

    assert watch.known.is_set()
    assert seen.taken.listed_last == {watch.collection.path: (0, LATEST)}
    assert not seen.session.watch_of(watch.collection).known.is_set()  # when the namespace is back, it begins anew


async def test_a_namespace_that_is_being_deleted_is_watched_until_it_is_gone() -> None:
    """Its services have to be, too, before their namespace can go."""
    cluster = Cluster({NAMESPACES: ["team-a"]})
    seen, insights = watched_by(cluster), Insights()
    async with beside(seen.watch(NAMESPACE)):
        cluster.tell(NAMESPACES, "MODIFIED", "team-a", deletionTimestamp="2026-01-01T00:00:00Z")
        await settled()
        revise_namespaces(insights=insights, namespaces=["team-*"], raw_events=seen.raw)

        assert [event["type"] for event in seen.raw] == [None, "MODIFIED"]
        assert insights.namespaces == {NamespaceName("team-a")}
        assert seen.session.namespaces() == {"team-a"}


# --- errors ---------------------------------------------------------------------------------------------


async def test_an_error_that_nobody_expects_ends_the_watch() -> None:
    class Broken(Cluster):
        async def send(self, request: ApiRequest) -> str:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await watched_by(Broken()).watch(PODS)
