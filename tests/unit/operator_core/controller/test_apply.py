"""Changes sent to the API server: responses are cached, failures name the child."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.controller.children import apply_changes
from isvc_operator.kube.errors import AlreadyExists, KubeError, ObjectNotFound, RequestRefused
from isvc_operator.kube.informer.cache import Cache, ObjectKey
from isvc_operator.kube.requests import path_of
from isvc_operator.manifests import ServiceKey
from isvc_operator.plan.changes import ChildChange, plan_changes
from tests.support.builders import NAMESPACE, SERVICE_UID, a_child, a_service, the_children
from tests.support.fakes import FakeKubeApi, target_of, unnoted

SERVICE = ServiceKey(NAMESPACE, "torchserve")
RENDERED = list(the_children().values())
DEPLOYMENT = ("POST", path_of("Deployment", NAMESPACE, "torchserve-predictor"))


@pytest.fixture
def api() -> FakeKubeApi:
    return FakeKubeApi()


@pytest.fixture
def cache() -> Cache:
    return Cache()


def changes_to(rendered: list[dict[str, Any]], cache: Cache) -> list[ChildChange]:
    return plan_changes(rendered, cache.of_service(SERVICE), SERVICE_UID)


async def test_a_deleted_child_leaves_the_cache_at_once(api: FakeKubeApi, cache: Cache) -> None:
    await apply_changes(api, cache, changes_to(RENDERED, cache), unnoted)

    await apply_changes(api, cache, changes_to([], cache), unnoted)

    assert list(cache.of_service(SERVICE)) == []
    assert api.objects == {}


async def test_deleting_a_missing_child_succeeds(api: FakeKubeApi, cache: Cache) -> None:
    await apply_changes(api, cache, changes_to(RENDERED, cache), unnoted)
    api.remove("Ingress", NAMESPACE, "torchserve")

    await apply_changes(api, cache, changes_to([], cache), unnoted)

    assert list(cache.of_service(SERVICE)) == []


async def test_a_deletion_spares_a_later_object_of_the_same_name(api: FakeKubeApi, cache: Cache) -> None:
    await apply_changes(api, cache, changes_to(RENDERED, cache), unnoted)
    api.remove("Ingress", NAMESPACE, "torchserve")
    namesake = api.put(a_child("Ingress", metadata={"name": "torchserve", "namespace": NAMESPACE}))

    await apply_changes(api, cache, changes_to([], cache), unnoted)

    assert list(api.objects.values()) == [namesake]


@pytest.mark.parametrize(
    "error",
    [
        RequestRefused(422, "spec.replicas: invalid"),
        ObjectNotFound(404, "namespace gone"),
        KubeError(503, "overloaded"),
    ],
)
async def test_a_failure_names_the_child_and_keeps_its_kind(api: FakeKubeApi, cache: Cache, error: KubeError) -> None:
    api.failing[DEPLOYMENT] = error

    with pytest.raises(type(error)) as caught:
        await apply_changes(api, cache, changes_to(RENDERED, cache), unnoted)

    assert str(caught.value) == f"Deployment torchserve-predictor: {error}"
    assert caught.value.status == error.status


async def test_a_child_that_is_gone_when_it_is_looked_for_is_created(api: FakeKubeApi, cache: Cache) -> None:
    api.failing[DEPLOYMENT] = AlreadyExists(409, "it exists")

    await apply_changes(api, cache, changes_to(RENDERED, cache), unnoted)

    assert [call.method for call in api.calls if target_of(call) == DEPLOYMENT[1]] == ["POST", "GET", "PATCH"]
    assert changes_to(RENDERED, cache) == []


SCALED = list(the_children(a_service(predictor={"maxReplicas": 4})).values())
BY_KEDA = list(
    the_children(
        a_service(predictor={"maxReplicas": 4}, annotations={"serving.kserve.io/autoscalerClass": "keda"})
    ).values()
)


async def test_a_scaled_object_of_kserves_becomes_what_is_rendered(api: FakeKubeApi, cache: Cache) -> None:
    cache.put(api.put(a_child("ScaledObject", spec={"minReplicaCount": 1, "maxReplicaCount": 3})))

    await apply_changes(api, cache, changes_to(BY_KEDA, cache), unnoted)

    found = api.get("ScaledObject", NAMESPACE, "torchserve-predictor") or {}
    assert found["spec"]["maxReplicaCount"] == 4
    assert [call.method for call in api.calls if "scaledobjects" in call.path] == ["GET", "PATCH"]


async def test_an_autoscaler_is_deleted_before_another_one_is_created(api: FakeKubeApi, cache: Cache) -> None:
    await apply_changes(api, cache, changes_to(SCALED, cache), unnoted)
    before = len(api.calls)

    await apply_changes(api, cache, changes_to(BY_KEDA, cache), unnoted)

    calls = [f"{call.method} {target_of(call).rpartition(NAMESPACE)[2]}" for call in api.calls[before:]]
    assert calls[0] == "DELETE /horizontalpodautoscalers/torchserve-predictor"
    assert "POST /scaledobjects/torchserve-predictor" in calls[1:]


async def test_a_refused_deletion_is_reported_and_the_child_stays_in_the_cache(api: FakeKubeApi, cache: Cache) -> None:
    await apply_changes(api, cache, changes_to(RENDERED, cache), unnoted)
    api.failing["DELETE", DEPLOYMENT[1]] = RequestRefused(403, "not allowed")

    with pytest.raises(RequestRefused, match="Deployment torchserve-predictor: not allowed"):
        await apply_changes(api, cache, changes_to([], cache), unnoted)

    assert cache.get(ObjectKey("Deployment", NAMESPACE, "torchserve-predictor")) is not None


# --- image volumes -----------------------------------------------------------------------------------

IMAGES = list(the_children(a_service(model={"storageUri": "oci+native://registry.example/bert:1"})).values())


async def test_only_a_deployment_with_image_volumes_is_tried_first(api: FakeKubeApi, cache: Cache) -> None:
    await apply_changes(api, cache, changes_to(RENDERED, cache), unnoted)
    assert [call.method for call in api.calls if target_of(call) == DEPLOYMENT[1]] == ["POST"]
    api.remove("Deployment", NAMESPACE, "torchserve-predictor")
    before = len(api.calls)

    await apply_changes(api, Cache(), changes_to(IMAGES, Cache()), unnoted)

    assert [call.method for call in api.calls[before:] if target_of(call) == DEPLOYMENT[1]] == ["PATCH", "POST"]
