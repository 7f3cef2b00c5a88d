"""Which watches run, by the scope, by the CRDs that are installed, and by the namespaces that exist."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from isvc_operator.api.kinds import kind_named
from isvc_operator.kube.errors import ObjectNotFound, RequestRefused
from isvc_operator.kube.heard import Heard
from isvc_operator.kube.requests import ApiRequest
from isvc_operator.kube.scope import Scope
from isvc_operator.kube.silence import Silence
from isvc_operator.kube.watch import LATEST, Collection, Watching
from isvc_operator.kube.watches import Watches
from isvc_operator.manifests import Manifest

PODS, ROUTES, RUNTIMES = (kind_named(kind) for kind in ("Pod", "HTTPRoute", "ClusterServingRuntime"))
CRDS, NAMESPACES = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/api/v1/namespaces"
ALL_ROUTES = "/apis/gateway.networking.k8s.io/v1/httproutes"
ALL_RUNTIMES = "/apis/serving.kserve.io/v1alpha1/clusterservingruntimes"


@dataclass
class Cluster:
    """An API server: the names of its objects by path; `watched` paths get the events that a test sends."""

    objects: dict[str, list[str]] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    watched: dict[str, asyncio.Queue[bytes]] = field(default_factory=dict)

    async def send(self, request: ApiRequest) -> str:
        if request.path in self.missing:
            raise ObjectNotFound(404, "page not found")
        if request.path in self.refused:
            raise RequestRefused(403, "forbidden")
        items = [{"metadata": {"name": name}} for name in self.objects.get(request.path, ())]
        return json.dumps({"metadata": {"resourceVersion": "1"}, "items": items})

    @asynccontextmanager
    async def stream(self, request: ApiRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        events = self.watched[request.path] = asyncio.Queue()
        try:
            yield self._events(events)
        finally:
            del self.watched[request.path]

    async def _events(self, events: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
        while True:
            yield await events.get()

    def tell(self, path: str, change: str, name: str) -> None:
        body = {"metadata": {"name": name, "resourceVersion": "2"}}
        self.watched[path].put_nowait(json.dumps({"type": change, "object": body}).encode() + b"\n")


@dataclass
class Taken:
    listed_last: dict[str, tuple[int, int]] = field(default_factory=dict)

    def listed(self, collection: Collection, objects: Sequence[Manifest], version: int) -> None:
        self.listed_last[collection.path] = len(objects), version

    def changed(self, change: str, body: Manifest) -> None:
        raise AssertionError(change)


@asynccontextmanager
async def watching(cluster: Cluster, scope: Scope) -> AsyncIterator[tuple[Watches, Taken]]:
    taken = Taken()
    shared = Watching(cluster, Heard(lambda: 0.0), Silence(), lambda: 0.0)
    watches = Watches(shared, scope, taken)
    task = asyncio.create_task(watches.run())
    await settled()
    try:
        yield watches, taken
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_in_the_whole_cluster_each_kind_is_watched_once() -> None:
    cluster = Cluster({"/api/v1/pods": ["a"]})
    async with watching(cluster, Scope(kinds=(PODS, RUNTIMES))) as (watches, taken):
        await watches.filled()
        assert set(cluster.watched) == {CRDS, "/api/v1/pods", ALL_RUNTIMES}
        assert taken.listed_last["/api/v1/pods"] == (1, 1)
        assert {state.path: state.listed for state in watches.states()} == dict.fromkeys(cluster.watched, True)


async def test_in_namespaces_a_kind_is_watched_in_each_and_one_of_the_cluster_once() -> None:
    cluster = Cluster()
    scope = Scope(("a", "b"), (PODS, RUNTIMES), notices_crds=False)
    async with watching(cluster, scope) as (watches, _):
        await watches.filled()
        assert set(cluster.watched) == {"/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods", ALL_RUNTIMES}


async def test_a_kind_without_a_crd_holds_up_nothing_and_is_watched_once_it_is_installed() -> None:
    cluster = Cluster(missing={ALL_ROUTES})
    async with watching(cluster, Scope(kinds=(PODS, ROUTES))) as (watches, taken):
        await watches.filled()
        assert taken.listed_last[ALL_ROUTES] == (0, LATEST)
        assert {state.path for state in watches.states()} == {CRDS, "/api/v1/pods"}

        cluster.missing.clear()
        cluster.tell(CRDS, "ADDED", "grpcroutes.gateway.networking.k8s.io")
        await settled()
        assert ALL_ROUTES not in cluster.watched
        cluster.tell(CRDS, "ADDED", "httproutes.gateway.networking.k8s.io")
        await settled()
        assert ALL_ROUTES in cluster.watched
        assert {state.path for state in watches.states()} == {CRDS, "/api/v1/pods", ALL_ROUTES}


async def test_namespaces_that_match_a_pattern_come_and_go() -> None:
    cluster = Cluster({NAMESPACES: ["team-a", "team-x", "other"]})
    async with watching(cluster, Scope(("team-*,!team-x",), (PODS, RUNTIMES))) as (watches, taken):
        await watches.filled()
        assert set(cluster.watched) == {CRDS, NAMESPACES, "/api/v1/namespaces/team-a/pods", ALL_RUNTIMES}

        cluster.tell(NAMESPACES, "ADDED", "team-b")
        cluster.tell(NAMESPACES, "DELETED", "team-a")
        await settled()
        assert set(cluster.watched) == {CRDS, NAMESPACES, "/api/v1/namespaces/team-b/pods", ALL_RUNTIMES}
        assert taken.listed_last["/api/v1/namespaces/team-a/pods"] == (0, LATEST)


async def test_until_namespaces_are_known_nothing_is_discovered() -> None:
    async with watching(Cluster(refused={NAMESPACES}), Scope(("team-*",), (PODS,))) as (watches, _):
        assert not watches.discovered


async def test_an_error_that_nobody_expects_ends_the_operator() -> None:
    class Broken(Cluster):
        async def send(self, request: ApiRequest) -> Any:
            raise ZeroDivisionError

    watches = Watches(Watching(Broken(), Heard(lambda: 0.0), Silence(), lambda: 0.0), Scope(), Taken())

    try:
        await watches.run()
    except* ZeroDivisionError as error:
        found = error
    assert found.exceptions
