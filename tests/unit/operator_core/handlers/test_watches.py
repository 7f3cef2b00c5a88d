"""The effect of a watch event: the cache is updated, and the services that it affects are queued."""

from __future__ import annotations

import logging
from typing import Any, cast

import kopf
import pytest

from isvc_operator.api.kinds import Role, with_role
from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.handlers.watches import is_needed, register, select_by_label, service_keys
from isvc_operator.kube.cache import Cache, ServiceKey, key_of
from isvc_operator.kube.requests import list_metadata
from isvc_operator.kube.scope import Scope
from tests.support.builders import NAMESPACE, a_child, a_ready_pod, a_runtime_body, a_service_body

OURS, OTHER = ServiceKey(NAMESPACE, "torchserve"), ServiceKey("elsewhere", "other")


class Watched:
    """The handlers that kopf has, and the keys that they have queued."""

    def __init__(self) -> None:
        self.cache = Cache(LABEL_SERVICE)
        self.queued: list[ServiceKey] = []
        self.registry = kopf.OperatorRegistry()
        register(self.registry, self.cache, self.queued.append, Scope().kinds)

    async def event(self, plural: str, body: dict[str, Any], type_: str | None = "MODIFIED") -> list[ServiceKey]:
        """Pass an event to kopf's handlers of a kind, as kopf does; returns the queued keys."""
        self.queued.clear()
        metadata = {"uid": "u", "resourceVersion": "1", **body["metadata"]}
        seen = kopf.Body(cast(Any, {**body, "metadata": metadata}))
        handlers = {handler.id: handler.fn for handler in self._handlers()}
        if type_ != "DELETED":
            await handlers[f"cache-{plural}"](body=seen)
        await handlers[f"queue-{plural}"](body=seen, type=type_)
        return list(self.queued)

    def plurals(self) -> set[str]:
        """The kinds that have handlers."""
        return {handler.id.partition("-")[2] for handler in self._handlers()}

    def _handlers(self) -> list[Any]:
        registry: Any = self.registry
        return [*registry._indexing._handlers, *registry._watching._handlers]


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.mark.parametrize("type_", [None, "ADDED", "MODIFIED", "DELETED"])
async def test_a_service_affects_itself(watched: Watched, type_: str | None) -> None:
    assert await watched.event("inferenceservices", a_service_body(), type_) == [OURS]


async def test_the_event_of_our_own_write_affects_no_service(watched: Watched) -> None:
    await watched.event("inferenceservices", a_service_body())
    written = at_version("2", status={"observedGeneration": 1})
    watched.cache.expect({**written, "metadata": a_service_body()["metadata"]})

    assert await watched.event("inferenceservices", written) == []
    assert watched.cache.get(key_of(written)) == written


async def test_an_edit_affects_its_service_even_if_it_reverts_a_change_after_our_own_write(
    watched: Watched,
) -> None:
    written = at_version("2")
    watched.cache.expect(written)

    assert await watched.event("inferenceservices", at_version("3", annotations={"note": "new"})) == [OURS]
    assert await watched.event("inferenceservices", at_version("4")) == [OURS]


async def test_the_deletion_of_a_service_that_we_have_written_affects_it(watched: Watched) -> None:
    watched.cache.expect(at_version("2"))

    assert await watched.event("inferenceservices", at_version("2"), "DELETED") == [OURS]


def at_version(version: str, **fields: Any) -> dict[str, Any]:
    body = a_service_body(**fields)
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}


@pytest.mark.parametrize(
    ("plural", "body"),
    [
        ("deployments", a_child("Deployment")),
        ("services", a_child("Service")),
        ("ingresses", a_child("Ingress")),
        ("httproutes", a_child("HTTPRoute")),
        ("grpcroutes", a_child("GRPCRoute")),
        ("horizontalpodautoscalers", a_child("HorizontalPodAutoscaler")),
        ("poddisruptionbudgets", a_child("PodDisruptionBudget")),
        ("networkpolicies", a_child("NetworkPolicy")),
        ("pods", a_ready_pod()),
    ],
)
async def test_a_child_affects_its_service(watched: Watched, plural: str, body: dict[str, Any]) -> None:
    assert await watched.event(plural, body) == [OURS]
    assert watched.cache.get(key_of(body)) is not None


async def test_a_child_without_a_service_affects_no_service(watched: Watched) -> None:
    assert await watched.event("pods", {"kind": "Pod", "metadata": {"name": "p", "namespace": NAMESPACE}}) == []


async def test_a_deleted_object_leaves_the_cache_before_its_service_is_queued(watched: Watched) -> None:
    await watched.event("pods", a_ready_pod())

    assert await watched.event("pods", a_ready_pod(), "DELETED") == [OURS]
    assert watched.cache.get(key_of(a_ready_pod())) is None


async def test_a_runtime_of_the_cluster_affects_every_service(watched: Watched) -> None:
    await watched.event("inferenceservices", a_service_body())
    await watched.event("inferenceservices", a_service_body("other", namespace="elsewhere"))

    assert await watched.event("clusterservingruntimes", a_runtime_body()) == [OURS, OTHER]


async def test_a_runtime_of_a_namespace_affects_the_services_there(watched: Watched) -> None:
    await watched.event("inferenceservices", a_service_body())
    await watched.event("inferenceservices", a_service_body("other", namespace="elsewhere"))

    assert await watched.event("servingruntimes", a_runtime_body(namespace="elsewhere")) == [OTHER]


@pytest.mark.parametrize(
    ("names", "needed"),
    [(("httproutes",), False), (("httproutes", "grpcroutes"), False), (("httproutes", "servingruntimes"), True)],
)
def test_a_missing_crd_is_logged_unless_it_may_be_missing(names: tuple[str, ...], needed: bool) -> None:
    selectors = ", ".join(f"Selector(group='g', version='v1', any_name={name!r})" for name in names)
    text = f"Unresolved resources cannot be served (try creating their CRDs): {selectors}"

    assert is_needed(logging.LogRecord("kopf", logging.WARNING, "", 0, text, None, None)) is needed


BUDGET_OF_OTHERS = {"kind": "PodDisruptionBudget", "metadata": {"name": "mine", "namespace": NAMESPACE}, "spec": {}}


@pytest.mark.parametrize(
    ("type_", "queued"), [(None, [OURS]), ("ADDED", [OURS]), ("DELETED", [OURS]), ("MODIFIED", [])]
)
async def test_a_budget_of_others_affects_the_services_of_its_namespace_unless_only_its_status_changes(
    watched: Watched, type_: str | None, queued: list[ServiceKey]
) -> None:
    await watched.event("inferenceservices", a_service_body())
    await watched.event("inferenceservices", a_service_body("other", namespace="elsewhere"))

    assert await watched.event("poddisruptionbudgets", BUDGET_OF_OTHERS, type_) == queued


def test_only_children_with_a_services_label_are_sent_by_the_api_server() -> None:
    settings = kopf.OperatorSettings()
    select_by_label(settings)

    selected: dict[Any, Any] = dict(settings.watching.label_selectors)
    assert {(kind.group, kind.any_name): label for kind, label in selected.items()} == {
        ("apps", "deployments"): LABEL_SERVICE,
        ("", "services"): LABEL_SERVICE,
        ("networking.k8s.io", "ingresses"): LABEL_SERVICE,
        ("gateway.networking.k8s.io", "httproutes"): LABEL_SERVICE,
        ("gateway.networking.k8s.io", "grpcroutes"): LABEL_SERVICE,
        ("autoscaling", "horizontalpodautoscalers"): LABEL_SERVICE,
        ("keda.sh", "scaledobjects"): LABEL_SERVICE,
        ("networking.k8s.io", "networkpolicies"): LABEL_SERVICE,
        ("", "pods"): LABEL_SERVICE,
    }


def test_what_is_listed_again_is_what_is_watched(watched: Watched) -> None:
    """Otherwise objects that are watched but not listed would count as deleted."""
    settings = kopf.OperatorSettings()
    select_by_label(settings)
    labels = {kind.any_name: label for kind, label in dict[Any, Any](settings.watching.label_selectors).items()}
    kinds = ("InferenceService", "ServingRuntime", "ClusterServingRuntime", "ClusterStorageContainer")
    requests = [list_metadata(kind, "") for kind in (*kinds, *(kind.name for kind in with_role(Role.CHILD)), "Pod")]

    listed = {(request.path.rpartition("/")[2], dict(request.query).get("labelSelector")) for request in requests}
    assert listed == {(plural, labels.get(plural)) for plural in watched.plurals()}


def test_no_service_has_no_key() -> None:
    assert service_keys(Cache(LABEL_SERVICE)) == []


async def test_a_deleted_service_affects_the_one_that_requests_its_hosts(watched: Watched) -> None:
    older = a_service_body("bank", namespace="pay-team", uid="a")
    younger = a_service_body("bank-pay", namespace="team", uid="b")
    for body, created in ((older, "2026-01-01"), (younger, "2026-01-02")):
        body["metadata"]["creationTimestamp"] = created
        await watched.event("inferenceservices", body)

    queued = await watched.event("inferenceservices", older, "DELETED")

    assert queued == [ServiceKey("pay-team", "bank"), ServiceKey("team", "bank-pay")]
