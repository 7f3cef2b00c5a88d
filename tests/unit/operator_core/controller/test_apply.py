"""Changes sent to the API server: responses are cached, failures name the child."""

from __future__ import annotations

import json
from typing import Any

import pytest

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.controller.children import apply_changes
from isvc_operator.kube.errors import AlreadyExists, Conflict, KubeError, ObjectNotFound, RequestRefused
from isvc_operator.kube.informer.cache import Cache, ObjectKey
from isvc_operator.kube.requests import ApiRequest, path_of
from isvc_operator.manifests import ServiceKey, controller_of
from isvc_operator.plan.changes import ChildChange, plan_changes
from tests.support.builders import (
    NAMESPACE,
    SERVICE_UID,
    a_child,
    a_service,
    a_service_body,
    an_owner,
    the_children,
)
from tests.support.fakes import FakeKubeApi, target_of

SERVICE = ServiceKey(NAMESPACE, "torchserve")
RENDERED = list(the_children().values())
DEPLOYMENT = ("POST", path_of("Deployment", NAMESPACE, "torchserve-predictor"))


@pytest.fixture
def api() -> FakeKubeApi:
    return FakeKubeApi()


@pytest.fixture
def cache() -> Cache:
    return Cache(LABEL_SERVICE)


def changes_to(rendered: list[dict[str, Any]], cache: Cache) -> list[ChildChange]:
    return plan_changes(rendered, cache.of_service(SERVICE), SERVICE_UID)


async def test_what_was_applied_is_known_at_once_and_not_applied_again(api: FakeKubeApi, cache: Cache) -> None:
    await apply_changes(api, cache, changes_to(RENDERED, cache))

    assert [item["kind"] for item in cache.of_service(SERVICE)] == ["Deployment", "Ingress", "Service"]
    assert changes_to(RENDERED, cache) == []


async def test_a_deleted_child_leaves_the_cache_at_once(api: FakeKubeApi, cache: Cache) -> None:
    await apply_changes(api, cache, changes_to(RENDERED, cache))

    await apply_changes(api, cache, changes_to([], cache))

    assert list(cache.of_service(SERVICE)) == []
    assert api.objects == {}


async def test_deleting_a_missing_child_succeeds(api: FakeKubeApi, cache: Cache) -> None:
    await apply_changes(api, cache, changes_to(RENDERED, cache))
    api.remove("Ingress", NAMESPACE, "torchserve")

    await apply_changes(api, cache, changes_to([], cache))

    assert list(cache.of_service(SERVICE)) == []


async def test_a_deletion_spares_a_later_object_of_the_same_name(api: FakeKubeApi, cache: Cache) -> None:
    await apply_changes(api, cache, changes_to(RENDERED, cache))
    api.remove("Ingress", NAMESPACE, "torchserve")
    namesake = api.put(a_child("Ingress", metadata={"name": "torchserve", "namespace": NAMESPACE}))

    await apply_changes(api, cache, changes_to([], cache))

    assert list(api.objects.values()) == [namesake]


async def test_all_changes_are_sent_even_if_one_fails(api: FakeKubeApi, cache: Cache) -> None:
    api.failing[DEPLOYMENT] = RequestRefused(403, "exceeded quota")

    with pytest.raises(RequestRefused):
        await apply_changes(api, cache, changes_to(RENDERED, cache))

    assert [item["kind"] for item in cache.of_service(SERVICE)] == ["Ingress", "Service"]


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
        await apply_changes(api, cache, changes_to(RENDERED, cache))

    assert str(caught.value) == f"Deployment torchserve-predictor: {error}"
    assert caught.value.status == error.status


async def test_an_object_of_someone_else_is_not_adopted_fields(api: FakeKubeApi, cache: Cache) -> None:
    theirs = api.put(a_child(metadata={"name": "torchserve-predictor", "namespace": NAMESPACE}))

    with pytest.raises(Conflict) as caught:
        await apply_changes(api, cache, changes_to(RENDERED, cache))

    assert api.get("Deployment", NAMESPACE, "torchserve-predictor") == theirs
    assert str(caught.value) == (
        "Deployment torchserve-predictor exists in namespace models and was not made by this operator "
        '(conflict with "kubectl": .spec); delete or rename it, or rename the InferenceService'
    )


async def test_an_unwatched_object_of_the_service_is_adopted(api: FakeKubeApi, cache: Cache) -> None:
    bare = {"name": "torchserve", "namespace": NAMESPACE, "ownerReferences": [an_owner()]}
    api.put(a_child("Ingress", metadata=bare))

    await apply_changes(api, cache, changes_to(RENDERED, cache))

    adopted = api.get("Ingress", NAMESPACE, "torchserve") or {}
    assert adopted["spec"] == the_children()["Ingress"]["spec"]


async def test_a_child_whose_creation_was_not_heard_of_is_found_and_not_written(api: FakeKubeApi, cache: Cache) -> None:
    changes = changes_to(RENDERED, cache)
    await apply_changes(api, Cache(LABEL_SERVICE), changes)
    before = len(api.calls)

    await apply_changes(api, cache, changes)

    assert sorted(call.method for call in api.calls[before:]) == ["GET"] * 3 + ["POST"] * 3
    assert changes_to(RENDERED, cache) == []


async def test_a_child_that_is_gone_when_it_is_looked_for_is_created(api: FakeKubeApi, cache: Cache) -> None:
    api.failing[DEPLOYMENT] = AlreadyExists(409, "it exists")

    await apply_changes(api, cache, changes_to(RENDERED, cache))

    assert [call.method for call in api.calls if target_of(call) == DEPLOYMENT[1]] == ["POST", "GET", "PATCH"]
    assert changes_to(RENDERED, cache) == []


async def test_what_a_service_of_that_name_has_left_becomes_the_child_of_the_new_one(
    api: FakeKubeApi, cache: Cache
) -> None:
    await apply_changes(api, Cache(LABEL_SERVICE), changes_to(RENDERED, cache))
    rendered = list(the_children(a_service(uid="another-uid")).values())

    await apply_changes(api, cache, plan_changes(rendered, cache.of_service(SERVICE), "another-uid"))

    assert [controller_of(item)["uid"] for item in api.objects.values()] == ["another-uid"] * 3


KSERVES_AUTOSCALER = a_child("HorizontalPodAutoscaler", spec={"minReplicas": 1, "maxReplicas": 3})
SCALED = list(the_children(a_service(predictor={"maxReplicas": 4})).values())
BY_KEDA = list(
    the_children(
        a_service(predictor={"maxReplicas": 4}, annotations={"serving.kserve.io/autoscalerClass": "keda"})
    ).values()
)


async def test_an_autoscaler_of_kserves_becomes_what_is_rendered(api: FakeKubeApi, cache: Cache) -> None:
    cache.put(api.put(KSERVES_AUTOSCALER))

    await apply_changes(api, cache, changes_to(SCALED, cache))

    found = api.get("HorizontalPodAutoscaler", NAMESPACE, "torchserve-predictor") or {}
    assert found["spec"]["maxReplicas"] == 4


async def test_a_scaled_object_of_kserves_becomes_what_is_rendered(api: FakeKubeApi, cache: Cache) -> None:
    cache.put(api.put(a_child("ScaledObject", spec={"minReplicaCount": 1, "maxReplicaCount": 3})))

    await apply_changes(api, cache, changes_to(BY_KEDA, cache))

    found = api.get("ScaledObject", NAMESPACE, "torchserve-predictor") or {}
    assert found["spec"]["maxReplicaCount"] == 4
    assert [call.method for call in api.calls if "scaledobjects" in call.path] == ["GET", "PATCH"]


async def test_an_autoscaler_of_kserves_without_room_to_scale_is_deleted(api: FakeKubeApi, cache: Cache) -> None:
    cache.put(api.put(KSERVES_AUTOSCALER))

    await apply_changes(api, cache, changes_to(RENDERED, cache))

    assert api.get("HorizontalPodAutoscaler", NAMESPACE, "torchserve-predictor") is None


async def test_an_autoscaler_is_deleted_before_another_one_is_created(api: FakeKubeApi, cache: Cache) -> None:
    await apply_changes(api, cache, changes_to(SCALED, cache))
    before = len(api.calls)

    await apply_changes(api, cache, changes_to(BY_KEDA, cache))

    calls = [f"{call.method} {target_of(call).rpartition(NAMESPACE)[2]}" for call in api.calls[before:]]
    assert calls[0] == "DELETE /horizontalpodautoscalers/torchserve-predictor"
    assert "POST /scaledobjects/torchserve-predictor" in calls[1:]


async def test_a_new_deployment_starts_with_the_autoscalers_minimum(api: FakeKubeApi, cache: Cache) -> None:
    rendered = list(the_children(a_service(predictor={"minReplicas": 2, "maxReplicas": 4})).values())

    await apply_changes(api, cache, changes_to(rendered, cache))

    assert (api.get("Deployment", NAMESPACE, "torchserve-predictor") or {})["spec"]["replicas"] == 2
    assert changes_to(rendered, cache) == []


async def test_nothing_is_sent_where_another_service_has_a_child_of_the_same_name(
    api: FakeKubeApi, cache: Cache
) -> None:
    cache.put(a_service_body("another", uid="another-uid"))
    theirs = {**a_child()["metadata"], "ownerReferences": [{**an_owner("another-uid"), "name": "another"}]}
    cache.put(a_child(metadata={**theirs, "labels": {LABEL_SERVICE: "another"}, "uid": "u", "resourceVersion": "1"}))

    with pytest.raises(Conflict) as caught:
        await apply_changes(api, cache, changes_to(RENDERED, cache))

    assert api.calls == []
    assert str(caught.value) == (
        "Deployment torchserve-predictor belongs to InferenceService another; "
        "rename one of the two, or the predictor of one (spec.predictor.name)"
    )


async def test_a_refused_deletion_is_reported_and_the_child_stays_in_the_cache(api: FakeKubeApi, cache: Cache) -> None:
    await apply_changes(api, cache, changes_to(RENDERED, cache))
    api.failing["DELETE", DEPLOYMENT[1]] = RequestRefused(403, "not allowed")

    with pytest.raises(RequestRefused, match="Deployment torchserve-predictor: not allowed"):
        await apply_changes(api, cache, changes_to([], cache))

    assert cache.get(ObjectKey("Deployment", NAMESPACE, "torchserve-predictor")) is not None


# --- image volumes -----------------------------------------------------------------------------------

IMAGES = list(the_children(a_service(model={"storageUri": "oci+native://registry.example/bert:1"})).values())


class WithoutImageVolumes(FakeKubeApi):
    """Leaves the volumes out, as an API server does that does not know them."""

    async def send(self, request: ApiRequest) -> str:
        if ("dryRun", "All") not in request.query:
            return await super().send(request)
        manifest = json.loads(json.dumps(request.body))
        manifest["spec"]["template"]["spec"]["volumes"] = []
        return json.dumps(manifest)


async def test_a_cluster_without_image_volumes_gets_no_deployment(cache: Cache) -> None:
    api = WithoutImageVolumes()

    with pytest.raises(RequestRefused) as raised:
        await apply_changes(api, cache, changes_to(IMAGES, cache))

    assert str(raised.value) == (
        "Deployment torchserve-predictor: the cluster has no image volumes, and leaves out kserve-oci-model; write "
        "oci+modelcar:// (or ociModelMode of storageInitializer), or turn on Kubernetes' feature gate ImageVolume"
    )
    assert [item["kind"] for item in cache.of_service(SERVICE)] == ["Ingress", "Service"]


async def test_only_a_deployment_with_image_volumes_is_tried_first(api: FakeKubeApi, cache: Cache) -> None:
    await apply_changes(api, cache, changes_to(RENDERED, cache))
    assert [call.method for call in api.calls if target_of(call) == DEPLOYMENT[1]] == ["POST"]
    api.remove("Deployment", NAMESPACE, "torchserve-predictor")
    before = len(api.calls)

    await apply_changes(api, Cache(LABEL_SERVICE), changes_to(IMAGES, Cache(LABEL_SERVICE)))

    assert [call.method for call in api.calls[before:] if target_of(call) == DEPLOYMENT[1]] == ["PATCH", "POST"]
