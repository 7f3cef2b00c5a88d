"""The cache of watched objects: older events are ignored, and each service finds its own objects."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_core import to_json

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.api.parsing import OMITTED
from isvc_operator.kube.informer.cache import READ, Cache, ObjectKey, key_of, trimmed
from isvc_operator.limits import LARGE_BYTES, NAMESPACE_BYTES, TEXT_BYTES, VALUES
from isvc_operator.manifests import ServiceKey
from tests.support.builders import a_service_body

OURS = ServiceKey("models", "torchserve")
NO_LABEL: dict[str, str] = {}


def an_object(
    name: str = "a",
    *,
    version: int = 1,
    uid: str = "u1",
    kind: str = "Pod",
    namespace: str = "models",
    service: str | None = "torchserve",
    **more: Any,
) -> dict[str, Any]:
    labels = NO_LABEL if service is None else {LABEL_SERVICE: service}
    metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(version), "labels": labels}
    return {"kind": kind, "metadata": metadata, **more}


@pytest.fixture
def cache() -> Cache:
    return Cache()


def test_a_service_finds_its_own_objects_in_a_stable_order(cache: Cache) -> None:
    ours = [an_object("b"), an_object("a"), an_object("c", kind="Deployment")]
    for item in (
        *ours,
        an_object("d", service="other"),
        an_object("e", namespace="elsewhere"),
        an_object("f", service=None),
    ):
        cache.put(item)

    assert list(cache.of_service(OURS)) == [ours[2], ours[1], ours[0]]


def test_an_older_event_that_arrives_later_is_ignored(cache: Cache) -> None:
    answer = an_object(version=10, status="from our write")
    cache.put(answer)
    cache.put(an_object(version=9, status="from the watch"))

    assert cache.get(key_of(answer)) == answer


def test_a_late_event_of_a_deleted_object_does_not_replace_its_namesake(cache: Cache) -> None:
    second = an_object(version=6, uid="u2")
    cache.put(second)
    cache.put(an_object(version=5, uid="u1"))

    assert cache.get(key_of(second)) == second


def test_the_end_of_an_object_does_not_take_its_namesake_along(cache: Cache) -> None:
    second = an_object(uid="u2")
    cache.put(second)
    cache.remove(an_object(uid="u1"))

    assert cache.get(key_of(second)) == second


@pytest.mark.parametrize("service", ["other", None])
def test_an_object_that_loses_the_services_label_is_no_longer_the_services(cache: Cache, service: str | None) -> None:
    cache.put(an_object(version=1))
    cache.put(an_object(version=2, service=service))

    assert list(cache.of_service(OURS)) == []
    assert list(cache.of_kind("Pod")) == [an_object(version=2, service=service)]


OTHERS_FIELDS = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}}
FIELDS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "by an update": (
        {"manager": "isvc-operator", "operation": "Update", "fieldsV1": {"f:spec": {}}},
        [{"manager": "isvc-operator", "operation": "Update"}],
    ),
    "by an apply": ({"manager": "isvc-operator", "operation": "Apply", "fieldsV1": {"f:spec": {}}}, []),
    "in the status": ({"manager": "isvc-operator", "operation": "Update", "subresource": "status"}, []),
}


@pytest.mark.parametrize(("ours", "kept"), FIELDS.values(), ids=FIELDS.keys())
def test_of_our_fields_it_is_kept_whether_we_have_some_that_we_have_not_applied(
    ours: dict[str, Any], kept: list[dict[str, Any]], cache: Cache
) -> None:
    bare = an_object()
    cache.put({**bare, "metadata": {**bare["metadata"], "managedFields": [OTHERS_FIELDS, ours]}})

    assert list((cache.get(key_of(bare)) or {})["metadata"].get("managedFields", ())) == kept


def test_of_a_pods_spec_its_node_and_volumes_are_kept(cache: Cache) -> None:
    kept = {"nodeName": "n", "volumes": [{"name": "v"}]}
    cache.put(an_object(spec={**kept, "containers": [{"name": "server"}]}, status={"phase": "Running"}))
    deployment = an_object(kind="Deployment", spec={"template": {"spec": {"containers": []}}})
    cache.put(deployment)

    assert cache.get(ObjectKey("Pod", "models", "a")) == an_object(spec=kept, status={"phase": "Running"})
    assert cache.get(key_of(deployment)) == deployment


def test_labels_may_be_null(cache: Cache) -> None:
    pod = an_object()
    pod["metadata"]["labels"] = None
    cache.put(pod)

    assert list(cache.of_kind("Pod")) == [pod]


def test_the_state_in_which_a_write_leaves_an_object_is_expected_once(cache: Cache) -> None:
    cache.expect(an_object(version=1, status="new"))

    assert cache.was_expected(an_object(version=2, status="new"))
    assert not cache.was_expected(an_object(version=2, status="new"))


def test_nothing_is_expected_of_an_object_after_the_response_to_the_write(cache: Cache) -> None:
    cache.expect(an_object(version=1, status="new"))
    cache.written(an_object(version=2, status="new"))

    assert cache.knows(an_object(version=2, status="new"))
    assert not cache.was_expected(an_object(version=3, status="new"))


def test_only_the_last_readings_are_kept() -> None:
    cache, read = Cache(), list[str]()
    bodies = [a_service_body(f"s{number}") for number in range(READ + 1)]
    stored = []
    for body in bodies:
        cache.put(body)
        stored.append(cache.get(key_of(body)) or {})
    for body in (*stored, stored[-1], stored[0]):
        cache.read(body, lambda item: read.append(item["metadata"]["name"]))

    assert read == [*(body["metadata"]["name"] for body in bodies), "s0"]


def test_what_has_no_services_label_is_found_by_its_namespace() -> None:
    cache = Cache()
    budget: dict[str, Any] = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "mine", "namespace": "models", "resourceVersion": "1"},
    }
    cache.put(budget)
    assert list(cache.unlabelled("PodDisruptionBudget", "models")) == [budget]

    labels = {"labels": {LABEL_SERVICE: "bert"}, "resourceVersion": "2"}
    cache.put({**budget, "metadata": {**budget["metadata"], **labels}})
    assert list(cache.unlabelled("PodDisruptionBudget", "models")) == []


def test_a_response_that_comes_after_the_deletion_of_its_object_does_not_bring_it_back(cache: Cache) -> None:
    cache.put(an_object(version=1))
    cache.tombstone(an_object(version=3), 3)
    cache.put(an_object(version=2))
    assert cache.get(key_of(an_object())) is None

    again = an_object(version=4, uid="another")
    cache.put(again)
    assert cache.get(key_of(again)) == again


def test_an_object_that_had_left_what_is_watched_can_come_back(cache: Cache) -> None:
    cache.put(an_object(version=1))
    cache.tombstone(an_object(version=2), 2)
    cache.put(back := an_object(version=3))
    assert cache.get(key_of(back)) == back

    cache.tombstone(an_object(version=2), 2)  # the event comes after the response to the write that brought it back
    assert cache.get(key_of(back)) == back


def a_large_object(name: str, size: int, **more: Any) -> dict[str, Any]:
    body = an_object(name, kind="Deployment", **more)
    return {**body, "apiVersion": "apps/v1", "spec": {"args": ["x" * 1000] * (size // 1000)}, "status": {"replicas": 1}}


def test_of_an_object_that_is_too_large_an_outline_is_kept() -> None:
    body = a_large_object("a", TEXT_BYTES + 2000)
    body["metadata"]["annotations"] = {"large": "x" * 5000}

    assert trimmed(body) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {name: value for name, value in body["metadata"].items() if name != "annotations"},
        "spec": {},
        "status": {"replicas": 1},
        OMITTED: f"spec.args[262]: with it there are more than {TEXT_BYTES} bytes of text; make it smaller",
    }
    assert trimmed(trimmed(body)) == trimmed(body)


def test_so_it_is_of_one_with_too_many_values_and_of_too_large_a_status() -> None:
    body = {**a_large_object("a", 0), "spec": {"volumes": [{}] * VALUES}, "status": {"x": "y" * LARGE_BYTES}}

    assert (trimmed(body)["spec"], trimmed(body)["status"]) == ({}, {})


def test_the_record_of_the_last_apply_is_not_kept() -> None:
    body = an_object()
    body["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}

    assert trimmed(body)["metadata"]["annotations"] == {"a": "b"}


FIT = NAMESPACE_BYTES // len(to_json(a_large_object("d00", 100_000)))


def test_the_large_objects_of_a_namespace_are_bounded_together(cache: Cache) -> None:
    bodies = [a_large_object(f"d{number:02}", 100_000) for number in range(FIT + 2)]
    elsewhere, small = a_large_object("e", 100_000, namespace="elsewhere"), an_object("small", kind="Deployment")
    for body in (*bodies, elsewhere, small):
        cache.put(body)

    kept = [body for body in cache.of_kind("Deployment") if OMITTED not in body]
    refused = [key for key in map(key_of, bodies) if OMITTED in (cache.get(key) or {})]
    assert kept == [*bodies[:FIT], elsewhere, small]
    assert refused == [key_of(body) for body in bodies[FIT:]]
    assert "with the other objects of services in namespace models that have" in (cache.get(refused[0]) or {})[OMITTED]
    assert cache.refused(OURS) == refused
    assert not any(map(cache.has_room, refused))


def test_there_is_room_for_what_was_refused_when_another_is_gone(cache: Cache) -> None:
    bodies = [a_large_object(f"d{number:02}", 100_000) for number in range(FIT + 1)]
    for body in bodies:
        cache.put(body)
    last = key_of(bodies[-1])
    assert (cache.refused(OURS), cache.has_room(last)) == ([last], False)

    cache.remove(bodies[0])
    assert (cache.refused(OURS), cache.has_room(last)) == ([last], True)

    cache.put(bodies[-1])
    assert (cache.refused(OURS), cache.get(last)) == ([], bodies[-1])


def test_an_object_counts_once_whatever_its_version(cache: Cache) -> None:
    for version in range(1, 2 * FIT):
        cache.put(a_large_object("a", 100_000, version=version))

    assert cache.refused(OURS) == []


def test_the_reading_of_a_large_object_is_not_kept(cache: Cache) -> None:
    body = a_large_object("a", 2 * LARGE_BYTES)
    cache.put(body)
    known = cache.get(key_of(body))
    assert known is not None

    readings = [cache.read(known, lambda _: object()) for _ in range(2)]
    assert readings[0] is not readings[1]


DIGEST: dict[str, Any] = {"f:metadata": {"f:annotations": {"f:isvc-operator.io/rendered": {}}}}
APPLIED = {"manager": "isvc-operator", "operation": "Apply", "fieldsV1": {"f:spec": {}}}
UNDONE = {"manager": "kubectl-rollout", "operation": "Update", "fieldsV1": DIGEST}


@pytest.mark.parametrize(
    ("managed", "kept"),
    [
        pytest.param([APPLIED, UNDONE], True, id="an earlier digest was put back"),
        pytest.param([{**APPLIED, "fieldsV1": DIGEST}, {**UNDONE, "fieldsV1": {"f:spec": {}}}], False, id="an edit"),
        pytest.param([{**APPLIED, "fieldsV1": DIGEST}, UNDONE], False, id="both have written the same"),
        pytest.param([{**UNDONE, "manager": "velero"}], False, id="a backup was restored"),
    ],
)
def test_the_managers_of_a_child_are_kept_where_they_tell_of_an_undone_change(
    managed: list[dict[str, Any]], kept: bool
) -> None:
    child = an_object(kind="Deployment")
    metadata = {**child["metadata"], "annotations": {"isvc-operator.io/rendered": "1"}, "managedFields": managed}

    assert ("managedFields" in trimmed({**child, "metadata": metadata})["metadata"]) is kept
