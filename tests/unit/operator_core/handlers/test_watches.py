"""The effect of a watch event: the cache is updated, and the services that it affects are queued."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.api.kinds import Role, kind_named, with_role
from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.handlers.watches import Affected
from isvc_operator.kube.informer.cache import Cache, key_of
from isvc_operator.kube.informer.watching import LATEST, Collection, OlderState
from isvc_operator.manifests import ServiceKey
from tests.support.builders import NAMESPACE, a_child, a_ready_pod, a_runtime_body, a_service_body

OURS, OTHER = ServiceKey(NAMESPACE, "torchserve"), ServiceKey("elsewhere", "other")


class Watched:
    """What takes the changes, and the keys that it has queued."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.queued: list[ServiceKey] = []
        self.affected = Affected(self.cache, self.queued.append, self.queued.extend)

    def event(self, body: dict[str, Any], change: str = "MODIFIED") -> list[ServiceKey]:
        """Report a change, as a watch does; returns the queued keys."""
        self.queued.clear()
        self.affected.changed(change, seen(body))
        return list(self.queued)

    def list(self, kind: str, *bodies: dict[str, Any], namespace: str = "", version: int = 10) -> list[ServiceKey]:
        """Report a list; returns the queued keys."""
        self.queued.clear()
        self.affected.listed(Collection(kind_named(kind), namespace), [seen(body) for body in bodies], version)
        return list(self.queued)


def seen(body: dict[str, Any]) -> dict[str, Any]:
    metadata = {"uid": f"uid-of-{body['metadata']['name']}", "resourceVersion": "1", **body["metadata"]}
    return {**body, "metadata": metadata}


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
def test_a_service_affects_itself(watched: Watched, type_: str) -> None:
    assert watched.event(a_service_body(), type_) == [OURS]


def test_the_event_of_our_own_write_affects_no_service(watched: Watched) -> None:
    watched.event(a_service_body())
    written = at_version("2", status={"observedGeneration": 1})
    watched.cache.expect({**written, "metadata": a_service_body()["metadata"]})

    assert watched.event(written) == []
    assert watched.cache.get(key_of(written)) == written


def test_an_object_that_is_listed_as_it_was_before_ends_the_operator(watched: Watched) -> None:
    """As after a restore of etcd, whose newest version is by now beyond what was seen."""
    watched.event(at_version("8"))

    with pytest.raises(OlderState, match=f"InferenceService {OURS.name} of .* is at resource version 3 and was at 8"):
        watched.list("InferenceService", at_version("3"), version=9)


def test_a_list_that_was_made_before_our_own_write_is_no_older_state(watched: Watched) -> None:
    watched.event(at_version("8"))

    assert watched.list("InferenceService", at_version("3"), version=7) == []


def test_an_edit_affects_its_service_even_if_it_reverts_a_change_after_our_own_write(
    watched: Watched,
) -> None:
    written = at_version("2")
    watched.cache.expect(written)

    assert watched.event(at_version("3", annotations={"note": "new"})) == [OURS]
    assert watched.event(at_version("4")) == [OURS]


def test_the_deletion_of_a_service_that_we_have_written_affects_it(watched: Watched) -> None:
    watched.cache.expect(at_version("2"))

    assert watched.event(at_version("2"), "DELETED") == [OURS]


def at_version(version: str, **fields: Any) -> dict[str, Any]:
    body = a_service_body(**fields)
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}


@pytest.mark.parametrize(
    "body",
    [*(a_child(kind.name) for kind in with_role(Role.CHILD)), a_ready_pod()],
    ids=lambda body: body["kind"],
)
def test_a_child_affects_its_service(watched: Watched, body: dict[str, Any]) -> None:
    assert watched.event(body) == [OURS]
    assert watched.cache.get(key_of(body)) is not None


def test_a_child_without_a_service_affects_no_service(watched: Watched) -> None:
    assert watched.event({"kind": "Pod", "metadata": {"name": "p", "namespace": NAMESPACE}}) == []


def test_a_deleted_object_leaves_the_cache_before_its_service_is_queued(watched: Watched) -> None:
    watched.event(a_ready_pod())

    assert watched.event(a_ready_pod(), "DELETED") == [OURS]
    assert watched.cache.get(key_of(a_ready_pod())) is None


def test_a_runtime_of_the_cluster_affects_every_service(watched: Watched) -> None:
    watched.event(a_service_body())
    watched.event(a_service_body("other", namespace="elsewhere"))

    assert watched.event(a_runtime_body()) == [OURS, OTHER]


def test_a_runtime_of_a_namespace_affects_the_services_there(watched: Watched) -> None:
    watched.event(a_service_body())
    watched.event(a_service_body("other", namespace="elsewhere"))

    assert watched.event(a_runtime_body(namespace="elsewhere")) == [OTHER]


BUDGET_OF_OTHERS = {"kind": "PodDisruptionBudget", "metadata": {"name": "mine", "namespace": NAMESPACE}, "spec": {}}


def test_a_budget_of_others_affects_the_services_of_its_namespace_unless_only_its_status_changes(
    watched: Watched,
) -> None:
    watched.event(a_service_body())
    watched.event(a_service_body("other", namespace="elsewhere"))

    assert watched.event(budget_of_others("2", generation=1), "ADDED") == [OURS]
    assert watched.event(budget_of_others("3", generation=1)) == []
    assert watched.event(budget_of_others("4", generation=2)) == [OURS]
    assert watched.event(budget_of_others("5", generation=2), "DELETED") == [OURS]


def budget_of_others(version: str, generation: int) -> dict[str, Any]:
    metadata = {**BUDGET_OF_OTHERS["metadata"], "resourceVersion": version, "generation": generation}
    return {**BUDGET_OF_OTHERS, "metadata": metadata}


@pytest.mark.parametrize("service", [None, "another"])
@pytest.mark.parametrize("kind", ["PodDisruptionBudget", "Deployment"])
def test_a_child_that_others_label_otherwise_affects_the_service_that_had_it(
    watched: Watched, kind: str, service: str | None
) -> None:
    watched.event(a_service_body())
    child = a_child(kind)
    watched.event(child)
    labels = {**child["metadata"]["labels"], LABEL_SERVICE: service}
    metadata = {**child["metadata"], "labels": labels, "resourceVersion": "2", "generation": 1}

    queued = watched.event({**child, "metadata": metadata})

    assert OURS in queued
    assert service is None or OURS._replace(name=service) in queued


def test_what_a_list_lacks_was_deleted_while_nobody_watched(watched: Watched) -> None:
    there, gone = a_child("Deployment"), a_child("Deployment")
    gone["metadata"] = {**gone["metadata"], "name": "gone"}
    for body in (there, gone):
        watched.event(body)

    assert watched.list("Deployment", there) == [OURS]
    assert [item["metadata"]["name"] for item in watched.cache.of_kind("Deployment")] == [there["metadata"]["name"]]


def test_a_runtime_that_a_list_lacks_affects_the_services_that_may_use_it(watched: Watched) -> None:
    watched.event(a_service_body())
    watched.event(a_runtime_body())

    assert watched.list("ClusterServingRuntime") == [OURS]


def test_what_is_newer_than_a_list_was_created_after_it(watched: Watched) -> None:
    watched.event(at_version("11"))

    assert watched.list("InferenceService", version=10) == []
    assert len(list(watched.cache.of_kind("InferenceService"))) == 1


@pytest.mark.parametrize("change", ["ADDED", "MODIFIED"])
def test_what_our_own_write_has_returned_affects_nothing_when_its_event_comes(watched: Watched, change: str) -> None:
    child = seen(a_child("Deployment"))
    watched.cache.put(child)

    assert watched.event(child, change) == []
    newer = {**child, "metadata": {**child["metadata"], "resourceVersion": "2"}}
    assert watched.event(newer, change) == [OURS]
    assert watched.event(child, change) == []


def test_a_list_of_a_namespace_says_nothing_of_others(watched: Watched) -> None:
    watched.event(a_service_body())
    watched.event(a_service_body("other", namespace="elsewhere"))

    assert watched.list("InferenceService", namespace="elsewhere") == [OTHER]
    assert [item["metadata"]["name"] for item in watched.cache.of_kind("InferenceService")] == ["torchserve"]


def test_of_a_list_only_what_has_changed_affects_services(watched: Watched) -> None:
    child = a_child("Service")
    assert watched.list("Service", child) == [OURS]
    assert watched.list("Service", child) == []

    changed = {**child, "metadata": {**child["metadata"], "resourceVersion": "5"}}
    assert watched.list("Service", changed) == [OURS]


def test_an_object_that_was_made_anew_replaces_the_one_before(watched: Watched) -> None:
    before, after = a_service_body(uid="before"), at_version("7")
    after["metadata"]["uid"] = "after"
    watched.event(before)

    assert watched.list("InferenceService", after) == [OURS, OURS]
    assert [item["metadata"]["uid"] for item in watched.cache.of_kind("InferenceService")] == ["after"]


def test_of_a_kind_that_was_removed_nothing_is_left(watched: Watched) -> None:
    watched.event(a_child("HTTPRoute"))

    assert watched.list("HTTPRoute", version=LATEST) == [OURS]
    assert list(watched.cache.of_kind("HTTPRoute")) == []


@pytest.mark.parametrize(
    ("left", "back"),
    [(10, "11"), (LATEST, "1")],
    ids=["without its label, and labelled again", "of a kind that was not served for a while"],
)
def test_what_was_not_there_for_a_while_is_watched_again(watched: Watched, left: int, back: str) -> None:
    child = a_child("HTTPRoute")
    watched.event(child)
    watched.list("HTTPRoute", version=left)
    child["metadata"]["resourceVersion"] = back

    assert watched.list("HTTPRoute", child, version=11) == [OURS]
    assert [item["metadata"]["name"] for item in watched.cache.of_kind("HTTPRoute")] == [child["metadata"]["name"]]


def test_a_deleted_service_affects_the_one_that_requests_its_hosts(watched: Watched) -> None:
    older = a_service_body("bank", namespace="pay-team", uid="a")
    younger = a_service_body("bank-pay", namespace="team", uid="b")
    for body, created in ((older, "2026-01-01"), (younger, "2026-01-02")):
        body["metadata"]["creationTimestamp"] = created
        watched.event(body)

    queued = watched.event(older, "DELETED")

    assert queued == [ServiceKey("pay-team", "bank"), ServiceKey("team", "bank-pay")]
