"""`isvc logs -f` on a real API server: silence, lost connections, restarts, pods that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from isvc.commands.seen.follow import Wanted, follow
from isvc.source import reach as reach_module
from isvc_operator.kube import client as client_module
from isvc_operator.kube.requests import path_of
from isvc_operator.manifests import ServiceKey
from tests.integration.cluster_view.test_source import seen
from tests.support.apiserver import ApiServer
from tests.support.builders import a_container, a_ready_pod, ended
from tests.support.fake_kubelet import logging_kubelet
from tests.support.related_objects import a_related
from tests.support.stored_objects import store

CONTAINER = "kserve-container"
WITHIN = 30.0  # seconds


@asynccontextmanager
async def followed(server: ApiServer, namespace: str) -> AsyncIterator[asyncio.Queue[str]]:
    """The lines that `isvc logs -f` prints, each behind its pod."""
    printed = asyncio.Queue[str]()
    async with seen(server.kubeconfig, namespace) as source:
        key, wanted = ServiceKey(namespace, "torchserve"), Wanted(container=CONTAINER)
        following = asyncio.create_task(
            follow(source, key, wanted, lambda line: printed.put_nowait(f"{line.pod}: {line.text}"))
        )
        yield printed
        following.cancel()
        await asyncio.wait([following])


async def test_a_log_is_followed_through_all_that_happens_to_a_pod(
    apiserver: ApiServer, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "API_RESPONSE_SECONDS", 2.0)
    monkeypatch.setattr(reach_module, "_ENDED_WITHIN", 1.0)
    node = f"node-{namespace}"
    pod, later = (a_ready_pod(name, node=node) for name in ("first", "later"))
    restarted = a_ready_pod("first", node=node, containers=[a_container(before=ended(1))])
    store(apiserver, namespace, a_related(pod))
    async with asyncio.timeout(WITHIN), logging_kubelet(apiserver, node, tmp_path) as logs:
        log = logs["first", CONTAINER]
        async with followed(apiserver, namespace) as printed:
            await log.read.wait()
            await asyncio.sleep(2.5)  # it says nothing for longer than other requests may take
            await log.write("one", "two")
            assert [await printed.get(), await printed.get()] == ["first: one", "first: two"]

            log.read.clear()
            await log.cut()
            await log.write("three")
            await log.read.wait()
            assert await printed.get() == "first: three"

            await log.write("the end")
            log = logs["first", CONTAINER] = type(log)()
            store(apiserver, namespace, a_related(restarted))
            await log.write("again")
            assert {await printed.get(), await printed.get()} == {"first: the end", "first: again"}

            store(apiserver, namespace, a_related(restarted, later))
            await logs["later", CONTAINER].write("hello")
            assert await printed.get() == "later: hello"

            await log.end()
            apiserver.send("DELETE", f"{path_of('Pod', namespace, 'first')}?gracePeriodSeconds=0")
            await logs["later", CONTAINER].write("still here")
            assert await printed.get() == "later: still here"
