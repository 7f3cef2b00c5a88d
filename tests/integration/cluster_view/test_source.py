"""What is seen of a real API server's services, with the rights of who looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from isvc.api_server import ProxiedResponse, ProxyApi, connect
from isvc.source.errors import NotSeen
from isvc.source.source import ClusterSource, cluster_source
from isvc.view.service import view_of
from isvc.view.values import HealthStatus
from isvc_operator.kube.requests import ApiRequest, path_of
from isvc_operator.manifests import ServiceKey
from tests.support.apiserver import ApiServer
from tests.support.builders import a_pod, an_initializer, ended
from tests.support.builders import running as runs
from tests.support.limited_users import PODS, SERVICES, a_reader
from tests.support.related_objects import a_related, an_event
from tests.support.stored_objects import store

WITHIN = 20.0  # seconds


@asynccontextmanager
async def seen(kubeconfig: Path, *namespaces: str) -> AsyncIterator[ClusterSource]:
    async with connect(str(kubeconfig)) as api, cluster_source(api, namespaces) as source:
        yield source


async def health_of(source: ClusterSource, key: ServiceKey, wanted: HealthStatus) -> None:
    """Wait until the service is seen like this."""
    async with asyncio.timeout(WITHIN):
        changes = source.changes()
        while (found := source.related(key)) is None or view_of(found).health is not wanted:
            await anext(changes)


async def test_a_service_is_seen_as_it_changes(apiserver: ApiServer, namespace: str) -> None:
    key = ServiceKey(namespace, "torchserve")
    starting = a_related(a_pod(initializer=an_initializer(runs())), events=[an_event("Pulled", "is present")])
    store(apiserver, namespace, starting)
    async with seen(apiserver.kubeconfig, namespace) as source:
        assert (source.keys(), source.hidden()) == ([key], [])
        related = source.related(key)
        assert related is not None
        service = view_of(related)
        assert (service.health, service.components[0].pods[0].stage) == (HealthStatus.STARTING, "LoadingModel")
        assert "Pulled" in {moment.reason for moment in service.history}
        assert service.request_path[0].kind == "Ingress"

        failed = a_pod(initializer=an_initializer(ended(5, "there is no modl-store")))
        store(apiserver, namespace, replace(a_related(failed), children=[], events=[an_event("BackOff", "again")]))
        await health_of(source, key, HealthStatus.FAILED)

        apiserver.send("DELETE", path_of("InferenceService", namespace, "torchserve"))
        async with asyncio.timeout(WITHIN):
            changes = source.changes()
            while source.keys():
                await anext(changes)
        assert source.related(key) is None


@dataclass
class SilentNode:
    """A ProxyApi. One pod's node does not send its log, and that of each other pod is a line of progress."""

    api: ProxyApi
    pod: str

    async def send(self, request: ApiRequest) -> str:
        if not request.path.endswith("/log"):
            return await self.api.send(request)
        if self.pod in request.path:
            await asyncio.Event().wait()
        return "43 % of it"

    def stream(self, request: ApiRequest) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.api.stream(request)

    async def proxy(self, request: ApiRequest, *, seconds: float = 30.0, limit: int = 1) -> ProxiedResponse:
        return await self.api.proxy(request, seconds=seconds, limit=limit)


async def test_a_log_that_does_not_come_keeps_nothing_else_waiting(
    apiserver: ApiServer, namespace: str, another: str
) -> None:
    for place, pod in ((namespace, "a-gone"), (another, "b-here")):
        store(apiserver, place, a_related(a_pod(pod, initializer=an_initializer(runs()))))
    async with (
        asyncio.timeout(WITHIN),
        connect(str(apiserver.kubeconfig)) as api,
        cluster_source(SilentNode(api, "a-gone"), (namespace, another), for_pages=True) as source,
    ):
        assert len(source.keys()) == 2
        key = ServiceKey(another, "torchserve")
        while not (related := source.related(key)) or not related.logs:
            assert source.silent() == 0
            await asyncio.sleep(0.1)
        assert [*related.logs.values()] == ["43 % of it"]


@pytest.mark.parametrize(
    ("elsewhere", "message"),
    [
        ((), "you may not list and watch inferenceservices in all namespaces; name one that you may read"),
        (("default",), "you may not list and watch inferenceservices in namespace default; name another one"),
    ],
)
async def test_who_may_see_nothing_is_told_what_to_do(
    apiserver: ApiServer, namespace: str, tmp_path: Path, elsewhere: Sequence[str], message: str
) -> None:
    kubeconfig = a_reader(apiserver, namespace, [SERVICES, PODS], tmp_path)
    with pytest.raises(NotSeen, match=message):
        async with seen(kubeconfig, *elsewhere):
            pass
