"""The parts of kopf that are not public API and that the operator's watches are built on: `kube/informer/` of the
operator, `isvc/source/follow.py` and `handlers/operator.py`.

When a newer kopf fails here, read what changed before you raise the bound in `pyproject.toml`. The lower bound is the
oldest version that passes here and in `tests/unit/operator_core/kube`.
"""

from __future__ import annotations

import ast
import asyncio
import importlib.metadata
import json
import logging
import re
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kopf
import pytest
from kopf._cogs.structs.references import NamespaceName, match_namespace
from packaging.requirements import Requirement

from isvc_operator.api.kinds import kind_named
from isvc_operator.errors import OperatorError
from isvc_operator.handlers.operator import stop_kopf
from isvc_operator.kube.informer.kopf_settings import selector_of, use_settings
from isvc_operator.kube.informer.scope import Scope
from isvc_operator.kube.informer.watch_session import KopfResponse, WatchSession
from isvc_operator.kube.informer.watching import Collection, Watching
from isvc_operator.kube.requests import ApiRequest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "operator" / "src"

# What of kopf the product takes from modules that are private.
PRIVATE = {
    "kopf._cogs.clients.auth",
    "kopf._cogs.clients.watching",
    "kopf._cogs.structs.credentials.Vault",
    "kopf._cogs.structs.credentials.VaultKey",
    "kopf._cogs.structs.references.NamespaceName",
    "kopf._cogs.structs.references.Resource",
    "kopf._cogs.structs.references.match_namespace",
}


# --- the version ----------------------------------------------------------------------------------------


def test_the_version_is_bounded_and_the_pinned_one_is_within_the_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = map(Requirement, project["optional-dependencies"]["operator"])
    (bound,) = [one.specifier for one in wanted if one.name == "kopf"]
    pinned = re.search(r"^kopf==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned

    assert bound == Requirement("kopf>=1.45.2,<1.46").specifier
    assert bound.contains(pinned[1])
    assert bound.contains(importlib.metadata.version("kopf"))


def test_the_private_names_in_use_are_those_that_are_tested_here() -> None:
    trees = [ast.parse(file.read_text()) for file in SOURCES.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]

    assert {
        f"{node.module}.{alias.name}"
        for node in imports
        if (node.module or "").startswith("kopf._")
        for alias in node.names
    } == PRIVATE
    assert not [node for node in nodes if isinstance(node, ast.Import) and "kopf._" in ast.unparse(node)]


# --- a whole operator -----------------------------------------------------------------------------------


def event(change: str, name: str, version: int, **others: Any) -> bytes:
    metadata = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": str(version), "namespace": "models", **others}
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}
    return json.dumps({"type": change, "object": body}, separators=(",", ":")).encode() + b"\n"


@dataclass
class Cluster:
    """An API server: names of objects by path, and watches, by path, that get the events that a test sends."""

    objects: dict[str, list[str]] = field(default_factory=dict)
    watched: dict[str, asyncio.Queue[bytes]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def send(self, request: ApiRequest) -> str:
        self.asked.append((request.method, request.path))
        items = [{"metadata": {"name": name, "uid": name}} for name in self.objects.get(request.path, ())]
        return json.dumps({"metadata": {"resourceVersion": "10"}, "items": items})

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


class Ignoring:
    """Takes lists, and forgets them."""

    def listed(self, *_: Any) -> None:
        return

    def changed(self, *_: Any) -> None:
        return


class Recorded(WatchSession):
    """Ours, with what kopf has requested of it."""

    def __init__(self, api: Cluster, handler: Any = None) -> None:
        super().__init__(Watching(api, lambda: 0.0, lambda: 0.0), handler or Ignoring())
        self.methods: set[str] = set()

    async def request(self, method: str, url: str, **others: Any) -> KopfResponse:
        self.methods.add(method)
        return await super().request(method, url, **others)


ALL_PODS = "/api/v1/pods"
CRDS, NAMESPACES = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/api/v1/namespaces"
ALL_RUNTIMES = "/apis/serving.kserve.io/v1alpha1/clusterservingruntimes"


@dataclass
class Operator:
    """An operator by kopf that watches pods and the runtimes of the cluster."""

    session: Recorded
    notices_crds: bool = True
    handled: list[Any] = field(default_factory=list)
    fails: bool = False

    async def run(self, stop: asyncio.Event | None, **scope: Any) -> None:
        registry = kopf.OperatorRegistry()

        @kopf.on.startup(registry=registry)
        async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
            use_settings(settings, notices_crds=self.notices_crds)
            settings.process.ultimate_exiting_timeout = None  # the process is not kopf's

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.AiohttpSession:
            return self.session.login

        async def changed(event: kopf.RawEvent, **_: Any) -> None:
            self.handled.append((event["type"], event["object"]))
            if self.fails:
                raise ZeroDivisionError

        for name in ("Pod", "ClusterServingRuntime"):
            kopf.on.event(*selector_of(kind_named(name)), registry=registry)(changed)
        await kopf.operator(registry=registry, standalone=True, stop_flag=stop, memo=kopf.Memo(), **scope)


@asynccontextmanager
async def running(operator: Operator, **scope: Any) -> AsyncIterator[asyncio.Task[None]]:
    stop = asyncio.Event()
    task = asyncio.create_task(operator.run(stop, **(scope or {"clusterwide": True})))
    try:
        yield task
    finally:
        stop.set()
        await asyncio.wait((task,))
    task.result()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110 - of kopf's tasks, which tell nobody
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """kopf's levels are the process's."""
    logger = logging.getLogger("kopf.objects")
    level = logger.level
    yield
    logger.setLevel(level)


async def test_a_handler_gets_each_event_as_it_came_and_kopf_writes_nothing() -> None:
    cluster = Cluster({ALL_PODS: ["listed"]})
    operator = Operator(Recorded(cluster))
    lines = [event("ADDED", "a", 11), event("MODIFIED", "a", 12), event("BOOKMARK", "", 13), event("DELETED", "a", 14)]
    async with running(operator):
        await until(lambda: ALL_PODS in cluster.watched)
        for line in lines:
            cluster.watched[ALL_PODS].put_nowait(line)
        await until(lambda: len(operator.handled) == 3)

    events = [json.loads(line) for line in lines]
    assert operator.handled == [
        (item["type"], item["object"]) for item in events if item["type"] != "BOOKMARK"
    ]  # neither of the list, nor with a finalizer or an annotation
    assert {type(body) for _, body in operator.handled} == {dict}
    assert operator.session.methods == {"get"}
    assert {method for method, _ in cluster.asked} == {"GET"}


async def test_the_finalizer_of_another_operator_on_kopf_is_left_alone() -> None:
    """By default all of them have the same, which kopf removes where it needs none; to fail at that delays events."""
    cluster = Cluster()
    operator = Operator(Recorded(cluster))
    finalizers = [kopf.OperatorSettings().persistence.finalizer]
    async with running(operator):
        await until(lambda: ALL_PODS in cluster.watched)
        for version in (11, 12, 13):
            cluster.watched[ALL_PODS].put_nowait(event("MODIFIED", "a", version, finalizers=finalizers))
            await until(lambda: len(operator.handled) == version - 10)  # noqa: B023

    assert operator.session.methods == {"get"}


async def test_kopf_ends_as_by_a_signal_when_its_task_that_waits_for_one_does() -> None:
    cluster = Cluster()
    task = asyncio.create_task(Operator(Recorded(cluster)).run(None, clusterwide=True))
    await until(lambda: ALL_PODS in cluster.watched)

    stop_kopf()
    async with asyncio.timeout(120):
        await task


async def test_an_error_of_a_handler_does_not_end_kopf(caplog: pytest.LogCaptureFixture) -> None:
    """What has to end the operator may not come from a handler of events."""
    cluster = Cluster()
    operator = Operator(Recorded(cluster), fails=True)
    async with running(operator):
        await until(lambda: ALL_PODS in cluster.watched)
        for version in (11, 12):
            cluster.watched[ALL_PODS].put_nowait(event("MODIFIED", "a", version))
        await until(lambda: len(operator.handled) == 2)

    assert caplog.text.count("failed with an exception and will ignore it: ZeroDivisionError()") == 2


async def test_an_error_of_ours_in_a_list_ends_kopf_with_it() -> None:
    class Restored(Ignoring):
        def listed(self, collection: Collection, *_: Any) -> None:
            raise OperatorError(f"{collection.path} went back")

    with pytest.raises(OperatorError, match=r"^/a.* went back$"):
        await Operator(Recorded(Cluster(), Restored())).run(None, clusterwide=True)


async def test_in_the_whole_cluster_each_kind_is_watched_once() -> None:
    cluster = Cluster()
    async with running(Operator(Recorded(cluster))):
        await until(lambda: len(cluster.watched) == 3)
        assert set(cluster.watched) == {CRDS, ALL_PODS, ALL_RUNTIMES}

    assert cluster.watched == {}


async def test_in_namespaces_a_kind_is_watched_in_each_and_one_of_the_cluster_once() -> None:
    cluster = Cluster()
    async with running(Operator(Recorded(cluster), notices_crds=False), namespaces=("a", "b")):
        await until(lambda: len(cluster.watched) == 3)
        assert set(cluster.watched) == {"/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods", ALL_RUNTIMES}

    assert {path for _, path in cluster.asked} & {CRDS, NAMESPACES} == set()


async def test_namespaces_that_match_a_pattern_come_and_go() -> None:
    cluster = Cluster({NAMESPACES: ["team-a", "team-x", "other"]})
    of_cluster = {CRDS, NAMESPACES, ALL_RUNTIMES}
    async with running(Operator(Recorded(cluster)), namespaces=("team-*,!team-x",)):
        await until(lambda: set(cluster.watched) == {*of_cluster, "/api/v1/namespaces/team-a/pods"})

        for change, name in (("ADDED", "team-b"), ("DELETED", "team-a"), ("ADDED", "others")):
            cluster.watched[NAMESPACES].put_nowait(event(change, name, 11))
        await until(lambda: set(cluster.watched) == {*of_cluster, "/api/v1/namespaces/team-b/pods"})


@pytest.mark.parametrize("name", ["team-a", "team-b", "other", "oth"])
@pytest.mark.parametrize(
    "pattern", ["team-*", "team-*,!team-b", "!team-?", "team-a", "team-*, !*-a, team-a", "oth*", "*", "team-?,other"]
)
def test_a_pattern_of_namespaces_matches_for_kopf_what_it_matches_for_us(pattern: str, name: str) -> None:
    assert match_namespace(NamespaceName(name), pattern) == Scope((pattern,)).matches(name)
