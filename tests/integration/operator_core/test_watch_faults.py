"""Watches on a real API server, through a proxy: cut silently, hung, behind, and expired; no change is missed."""

from __future__ import annotations

import asyncio
import gc
import json
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from isvc.source.follow import follow
from isvc_operator.api.kinds import kind_named
from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.handlers.watches import Affected
from isvc_operator.kube import client as client_module
from isvc_operator.kube.client import connect
from isvc_operator.kube.informer import kopf_settings
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.kube.informer.watch_session import WatchSession
from isvc_operator.kube.informer.watching import Collection, Watch, Watching
from isvc_operator.manifests import ServiceKey
from tests.support.apiserver import ApiServer, Backend, restartable
from tests.support.tcp_proxy import TcpProxy, proxying

WITHIN = 60.0  # seconds, on a busy machine
SERVICES = "/api/v1/namespaces/default/services"
WATCHED = Collection(kind_named("Service"))


@pytest.fixture(scope="module")
def backend(assets: Path) -> Iterator[Backend]:
    with restartable(assets) as started:
        yield started


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watches that wait less long than the minute in which the API server says something."""
    monkeypatch.setattr(kopf_settings, "WATCH_IDLE_SECONDS", 2.0)
    monkeypatch.setattr(client_module, "API_RESPONSE_SECONDS", 2.0)


@dataclass
class Watched:
    """What the operator knows of the Services with a service's label, and the services that were queued."""

    proxy: TcpProxy
    cache: Cache
    queued: list[ServiceKey]
    session: WatchSession

    @property
    def watch(self) -> Watch:
        return self.session.watch_of(WATCHED)

    def names(self) -> set[str]:
        return {item["metadata"]["name"] for item in self.cache.of_kind("Service")}


@asynccontextmanager
async def watching(server: ApiServer, folder: Path) -> AsyncIterator[Watched]:
    async with proxying(int(server.base_url.rpartition(":")[2])) as proxy:
        config = json.loads(server.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
        (folder / "kubeconfig").write_text(json.dumps(config))
        async with connect(str(folder / "kubeconfig")) as api:
            cache, queued = Cache(), list[ServiceKey]()
            affected = Affected(cache, queued.append, queued.extend)
            session = WatchSession(Watching(api, asyncio.get_running_loop().time, lambda: 0.0), affected)
            task = asyncio.create_task(follow(session, WATCHED, affected))
            try:
                await session.watch_of(WATCHED).known.wait()
                yield Watched(proxy, cache, queued, session)
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
    gc.collect()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN):
        while not holds():  # noqa: ASYNC110 - what changes is the API server's
            await asyncio.sleep(0.02)


def create(server: ApiServer, name: str) -> None:
    metadata = {"name": name, "labels": {LABEL_SERVICE: name}}
    server.send("POST", SERVICES, {"metadata": metadata, "spec": {"ports": [{"port": 80}]}})


def delete(server: ApiServer, name: str) -> None:
    server.send("DELETE", f"{SERVICES}/{name}")


async def test_a_watch_that_was_cut_silently_reports_what_it_missed(
    backend: Backend, tmp_path: Path, impatient: None
) -> None:
    server = backend.server
    create(server, "a")
    async with watching(server, tmp_path) as watched:
        create(server, "b")
        await until(lambda: watched.names() == {"a", "b"})
        watched.queued.clear()

        watched.proxy.mute()
        delete(server, "a")
        create(server, "c")
        await until(lambda: watched.names() == {"b", "c"})

    assert {"a", "c"} <= {key.name for key in watched.queued}
    delete(server, "b")
    delete(server, "c")


async def test_connections_that_hang_in_their_handshake_are_given_up(
    backend: Backend, tmp_path: Path, impatient: None
) -> None:
    server = backend.server
    create(server, "a")
    async with watching(server, tmp_path) as watched:
        before, watched.proxy.silent = watched.proxy.accepted, True
        delete(server, "a")
        await until(lambda: watched.proxy.accepted >= before + 3)
        assert watched.names() == {"a"}

        watched.proxy.silent = False
        await until(lambda: watched.names() == set())


async def test_an_open_watch_is_silent_to_healthz_only_when_it_cannot_be_opened_again(
    backend: Backend, tmp_path: Path, impatient: None
) -> None:
    async with watching(backend.server, tmp_path) as watched:
        watched.proxy.silent = True
        await until(lambda: watched.watch.state().silent > 2.5)
        watched.proxy.silent = False
        await until(lambda: watched.watch.state().silent < 2.0)


async def test_what_was_deleted_while_the_connection_was_lost_is_reported_by_a_list(
    backend: Backend, tmp_path: Path
) -> None:
    """The API server forgets what happened before its start, and etcd what was compacted."""
    server = backend.server
    create(server, "kept")
    create(server, "gone")
    async with watching(server, tmp_path) as watched:
        await until(lambda: watched.names() == {"kept", "gone"})
        watched.queued.clear()
        watched.proxy.silent = True
        watched.proxy.close()
        delete(server, "gone")
        create(server, "new")
        newest = server.send("GET", "/api/v1/namespaces/default/services")["metadata"]["resourceVersion"]
        compact(backend, int(newest))
        backend.apiserver.end()
        backend.apiserver.start()
        await asyncio.to_thread(backend.wait_until_ready)
        watched.proxy.silent = False
        watched.proxy.close()
        await until(lambda: watched.names() == {"kept", "new"})

    assert {"gone", "new"} <= {key.name for key in watched.queued}


async def test_a_version_that_has_expired_is_told_to_kopf_as_such(backend: Backend, tmp_path: Path) -> None:
    """The API server's own words for it: a response with 200 whose only event is an error."""
    async with watching(backend.server, tmp_path) as watched:
        url = f"{WATCHED.path}?watch=true&resourceVersion=1&allowWatchBookmarks=true&labelSelector={LABEL_SERVICE}"
        create(backend.server, "another")
        newest = backend.server.send("GET", SERVICES)["metadata"]["resourceVersion"]
        compact(backend, int(newest))
        backend.apiserver.end()
        backend.apiserver.start()
        await asyncio.to_thread(backend.wait_until_ready)
        async with await watched.session.request("get", url) as response:
            lines = [json.loads(line) async for line in response.content.iter_chunked(1)]
    delete(backend.server, "another")

    assert lines == [{"type": "ERROR", "object": {"code": 410}}]


def compact(backend: Backend, revision: int) -> None:
    """Make etcd forget what was before a revision."""
    (url,) = [flag.partition("=")[2] for flag in backend.etcd.command if flag.startswith("--listen-client-urls=")]
    body = json.dumps({"revision": revision, "physical": True}).encode()
    with urllib.request.urlopen(f"{url}/v3/kv/compaction", body, timeout=10) as answer:
        assert answer.status == 200
