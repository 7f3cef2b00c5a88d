"""What one reconcile reads."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.kube.cache import Cache, ServiceKey
from isvc_operator.kube.gather import Gathered, gather
from isvc_operator.resolve.runtime import Runtimes
from tests.support.builders import (
    NAMESPACE,
    NOW,
    a_child,
    a_deployment,
    a_ready_pod,
    a_runtime,
    a_runtime_body,
    a_service_body,
)
from tests.support.credentials import a_storage_container

KEY = ServiceKey(NAMESPACE, "torchserve")
METADATA = a_child()["metadata"]


def cache_with(*objects: dict[str, Any]) -> Cache:
    cache = Cache(LABEL_SERVICE)
    for item in objects:
        cache.put({**item, "metadata": {"uid": "u", "resourceVersion": "1", **item["metadata"]}})
    return cache


def test_a_service_its_runtimes_and_children_are_read() -> None:
    ours, theirs = a_runtime_body("ours", namespace=NAMESPACE), a_runtime_body("theirs", namespace="elsewhere")
    cluster = a_runtime_body()

    gathered = gather(cache_with(a_service_body(), a_deployment(), a_ready_pod(), ours, theirs, cluster), KEY)

    assert gathered is not None
    assert gathered.body == a_service_body()
    assert [item["kind"] for item in gathered.children] == ["Deployment"]
    assert [item.metadata.name for item in gathered.runtimes.namespaced] == ["ours"]
    assert [item.metadata.name for item in gathered.runtimes.cluster] == ["kserve-torchserve"]


def test_a_deleted_service_has_nothing_to_read() -> None:
    assert gather(cache_with(a_deployment()), KEY) is None


def test_a_service_that_is_being_deleted_is_left_alone() -> None:
    body = a_service_body()
    body["metadata"]["deletionTimestamp"] = NOW

    assert gather(cache_with(body), KEY) is None


HEADLESS: dict[str, tuple[list[dict[str, Any]], bool | None]] = {
    "none": ([], None),
    "one with an address": ([a_child("Service", spec={"clusterIP": "10.0.0.1"})], False),
    "one without": ([a_child("Service", spec={"clusterIP": "None"})], True),
    "one of somebody else": ([{**a_child("Service"), "metadata": {**METADATA, "ownerReferences": []}}], None),
}


@pytest.mark.parametrize(("services", "headless"), HEADLESS.values(), ids=HEADLESS.keys())
def test_services_are_headless_as_they_were_made(services: list[dict[str, Any]], headless: bool | None) -> None:
    gathered = gather(cache_with(a_service_body(), *services), KEY)

    assert gathered is not None
    assert gathered.headless is headless


def test_a_runtime_that_cannot_be_read_does_not_stop_the_others() -> None:
    broken = {**a_runtime_body("broken"), "spec": {"containers": "none"}}

    gathered = gather(cache_with(a_service_body(), broken, a_runtime_body()), KEY)

    told = "ClusterServingRuntime broken is not valid: spec.containers: Input should be a valid list"
    runtimes = Runtimes(cluster=(a_runtime(),), unreadable={"broken": told})
    assert gathered == Gathered(a_service_body(), runtimes, (), ())


def test_a_runtime_of_another_namespace_that_cannot_be_read_is_of_no_concern() -> None:
    broken = {**a_runtime_body("broken", namespace="elsewhere"), "spec": {"containers": "none"}}

    gathered = gather(cache_with(a_service_body(), broken), KEY)

    assert gathered == Gathered(a_service_body(), Runtimes(), (), ())


def test_the_clusters_storage_containers_are_read() -> None:
    container = a_storage_container()

    gathered = gather(cache_with(a_service_body(), container.as_dict()), KEY)

    assert gathered is not None
    assert [item.spec for item in gathered.storage_containers] == [container.spec]


def test_an_object_is_parsed_once_for_each_of_its_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many services may use a runtime, and however large it is."""
    parsed = []
    monkeypatch.setattr(
        "isvc_operator.kube.gather.parse_serving_runtime", lambda body: parsed.append(body["spec"]) or body["spec"]
    )
    first, second = a_runtime_body(), a_runtime_body(protocols=["v2"])
    cache = cache_with(a_service_body(), first)

    found = [gather(cache, KEY) for _ in range(3)]
    cache.put({**second, "metadata": {**second["metadata"], "resourceVersion": "2"}})
    found += [gather(cache, KEY) for _ in range(3)]

    assert parsed == [first["spec"], second["spec"]]
    assert [item and item.runtimes.cluster for item in found] == [(first["spec"],)] * 3 + [(second["spec"],)] * 3
