"""The fake API server of the unit tests responds like the real one: each test runs against both."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from isvc_operator.controller.adoption import adopt_fields
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi, connect
from isvc_operator.kube.errors import AlreadyExists, Conflict, ObjectNotFound
from isvc_operator.manifests import updated_by
from tests.support.apiserver import ApiServer
from tests.support.builders import a_service_body, an_owner
from tests.support.fakes import FakeKubeApi
from tests.support.namespace import Namespace, story_service

NAME = "thing"
Put = Callable[[dict[str, Any]], object]


@pytest.fixture(params=["fake", "real"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[tuple[KubeApi, Put, str]]:
    """An API, a way to put an object as another client would, and a namespace."""
    if request.param == "fake":
        fake = FakeKubeApi()
        yield fake, fake.put, "somewhere"
        return
    server: ApiServer = request.getfixturevalue("apiserver")
    namespace: Namespace = request.getfixturevalue("namespace")
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(connect(str(server.kubeconfig)))
        yield api, namespace.apply, namespace.name


def a_service(namespace: str, port: int = 80) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"ports": [{"name": "http", "port": port, "targetPort": 8080}], "selector": {"app": NAME}},
    }


async def applied(api: KubeApi, manifest: dict[str, Any], *, force: bool = False) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(await api.send(requests.apply(manifest, force=force)))
    return answer


async def test_the_same_apply_twice_changes_nothing(world: tuple[KubeApi, Put, str]) -> None:
    api, _, namespace = world
    first = await applied(api, a_service(namespace))
    second = await applied(api, a_service(namespace), force=True)
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_another_apply_gets_a_newer_version_of_the_same_object(world: tuple[KubeApi, Put, str]) -> None:
    api, _, namespace = world
    first = await applied(api, a_service(namespace))
    second = await applied(api, a_service(namespace, port=81), force=True)
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    assert [port["port"] for port in second["spec"]["ports"]] == [81]


async def test_what_is_created_is_not_created_twice(world: tuple[KubeApi, Put, str]) -> None:
    api, _, namespace = world
    first = json.loads(await api.send(requests.create(a_service(namespace))))
    with pytest.raises(AlreadyExists):
        await api.send(requests.create(a_service(namespace, port=81)))
    assert json.loads(await api.send(requests.get("Service", namespace, NAME))) == first


async def test_what_is_created_is_applied_once_its_fields_are_adopted(world: tuple[KubeApi, Put, str]) -> None:
    api, _, namespace = world
    child = a_child_service(namespace)
    created = json.loads(await api.send(requests.create(child)))
    assert len(updated_by("isvc-operator", created)) == 1
    assert await adopt_fields(api, child)
    changed = await applied(api, {**child, "metadata": {**child["metadata"], "annotations": {"stays": "yes"}}})
    assert changed["metadata"]["annotations"] == {"stays": "yes"}
    assert updated_by("isvc-operator", changed) == []


def a_child_service(namespace: str) -> dict[str, Any]:
    """With an annotation too many."""
    service = a_service(namespace)
    annotations = {"stays": "yes", "goes": "yes"}
    return {**service, "metadata": {**service["metadata"], "annotations": annotations, "ownerReferences": [an_owner()]}}


async def test_an_object_of_another_client_is_taken_by_force_only(world: tuple[KubeApi, Put, str]) -> None:
    api, put, namespace = world
    put(a_service(namespace))
    theirs = {**a_service(namespace), "spec": {**a_service(namespace)["spec"], "selector": {"app": "ours"}}}
    with pytest.raises(Conflict):
        await applied(api, theirs)
    assert (await applied(api, theirs, force=True))["spec"]["selector"]["app"] == "ours"


async def test_a_delete_spares_a_namesake(world: tuple[KubeApi, Put, str]) -> None:
    api, _, namespace = world
    held = await applied(api, a_service(namespace))
    another = {**held, "metadata": {**held["metadata"], "uid": "5d9e0000-0000-4000-8000-000000000000"}}
    with pytest.raises(Conflict):
        await api.send(requests.delete(another))
    await api.send(requests.delete(held))
    with pytest.raises(ObjectNotFound):
        await api.send(requests.delete(held))


async def test_metadata_is_patched_only_at_the_version_that_was_seen(world: tuple[KubeApi, Put, str]) -> None:
    api, _, namespace = world
    seen = await applied(api, a_service(namespace))
    patched = json.loads(await api.send(requests.patch_metadata(seen, {"finalizers": ["mine/first"]})))
    assert patched["metadata"]["finalizers"] == ["mine/first"]
    assert patched["spec"] == seen["spec"]
    with pytest.raises(Conflict):
        await api.send(requests.patch_metadata(seen, {"finalizers": []}))
    await api.send(requests.patch_metadata(patched, {"finalizers": []}))


async def test_a_status_is_patched_and_nothing_else(world: tuple[KubeApi, Put, str]) -> None:
    api, put, namespace = world
    service = story_service()
    service["metadata"]["namespace"] = namespace
    put(service)
    made = json.loads(await api.send(requests.get("InferenceService", namespace, "torchserve")))
    status = {"observedGeneration": 1, "url": "http://a", "deploymentMode": "x"}
    first = json.loads(await api.send(requests.patch_status(made, status)))
    second = json.loads(await api.send(requests.patch_status(first, {"deploymentMode": None})))
    assert second["status"] == {"observedGeneration": 1, "url": "http://a"}
    assert second["metadata"]["generation"] == first["metadata"]["generation"]
    assert second["spec"] == first["spec"]


async def test_a_status_is_patched_only_at_the_version_that_was_seen(world: tuple[KubeApi, Put, str]) -> None:
    api, put, namespace = world
    service = story_service()
    service["metadata"]["namespace"] = namespace
    put(service)
    seen = json.loads(await api.send(requests.get("InferenceService", namespace, "torchserve")))
    await api.send(requests.patch_status(seen, {"url": "http://a"}))
    with pytest.raises(Conflict):
        await api.send(requests.patch_status(seen, {"url": "http://b"}))


async def test_the_status_of_a_deleted_service_is_not_found(world: tuple[KubeApi, Put, str]) -> None:
    api, _, namespace = world
    with pytest.raises(ObjectNotFound):
        await api.send(requests.patch_status(a_service_body("nobody", namespace=namespace), {"url": "http://a"}))
