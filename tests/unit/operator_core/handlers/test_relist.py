"""A deletion that no watch has reported is found, and its service is queued."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.handlers import relist
from isvc_operator.handlers.relist import relist_forever
from isvc_operator.kube.cache import Cache, ServiceKey, key_of
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.requests import ApiRequest
from isvc_operator.manifests import Manifest
from tests.support.builders import NAMESPACE, a_child, a_runtime_body, a_service_body

OURS, OTHER = ServiceKey(NAMESPACE, "torchserve"), ServiceKey("elsewhere", "other")
OTHER_SERVICE = a_service_body("other", namespace="elsewhere", uid="other-uid")


class Emptied:
    """An API server that holds nothing but a few uids; `refused` are paths that it does not list."""

    def __init__(self, *living: str, refused: str = "") -> None:
        self._living = living
        self._refused = refused
        self.paths: list[str] = []

    async def send(self, request: ApiRequest) -> str:
        self.paths.append(request.path)
        if request.path == self._refused:
            raise KubeError(403, "forbidden")
        items = [{"metadata": {"uid": uid}} for uid in self._living]
        return json.dumps({"metadata": {"resourceVersion": "1000"}, "items": items})


@asynccontextmanager
async def looked_at(
    monkeypatch: pytest.MonkeyPatch, api: Emptied, *bodies: Manifest, by_namespace: bool = False
) -> AsyncIterator[tuple[Cache, list[ServiceKey]]]:
    """The cache and the queue after the first rounds."""
    monkeypatch.setattr(relist, "INTERVAL", 0)
    cache, queued = Cache(LABEL_SERVICE), list[ServiceKey]()
    for body in bodies:
        metadata = {"uid": f"uid-of-{body['metadata']['name']}", "resourceVersion": "1", **body["metadata"]}
        cache.put({**body, "metadata": metadata})
    task = asyncio.create_task(relist_forever(api, cache, queued.append, by_namespace=by_namespace))
    for _ in range(10):
        await asyncio.sleep(0)
    try:
        yield cache, queued
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_deleted_child_queues_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    child = a_child("Deployment")
    async with looked_at(monkeypatch, Emptied(), child) as (cache, queued):
        assert queued == [OURS]
        assert cache.get(key_of(child)) is None


async def test_a_deleted_service_is_queued_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async with looked_at(monkeypatch, Emptied("other-uid"), a_service_body(), OTHER_SERVICE) as (_, queued):
        assert queued == [OURS]


async def test_a_deleted_runtime_queues_the_services_that_may_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    service = a_service_body()
    api = Emptied(service["metadata"]["uid"])
    async with looked_at(monkeypatch, api, service, a_runtime_body()) as (_, queued):
        assert queued == [OURS]


async def test_only_kinds_that_are_known_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Emptied("other-uid")
    async with looked_at(monkeypatch, api, OTHER_SERVICE):
        assert set(api.paths) == {"/apis/serving.kserve.io/v1beta1/inferenceservices"}


async def test_an_operator_of_namespaces_lists_these_and_the_clusters_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Emptied("other-uid", "uid-of-kserve-torchserve")
    async with looked_at(monkeypatch, api, OTHER_SERVICE, a_runtime_body(), by_namespace=True):
        assert set(api.paths) == {
            "/apis/serving.kserve.io/v1beta1/namespaces/elsewhere/inferenceservices",
            "/apis/serving.kserve.io/v1alpha1/clusterservingruntimes",
        }


async def test_a_kind_that_cannot_be_listed_is_logged_and_the_others_are_listed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api = Emptied(refused="/apis/apps/v1/deployments")
    deployment, child = a_child("Deployment"), a_child("Service")
    async with looked_at(monkeypatch, api, deployment, child) as (cache, queued):
        assert queued == [OURS]
        assert (cache.get(key_of(deployment)) is None, cache.get(key_of(child)) is None) == (False, True)
    assert {record.message for record in caplog.records if record.levelno == logging.WARNING} == {
        "objects of kind Deployment cannot be listed to find deleted ones: forbidden"
    }
