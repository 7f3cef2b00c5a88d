"""What KServe's controller has left where nothing takes its place."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.controller.children import DRAIN_SECONDS
from isvc_operator.kube.errors import Conflict
from isvc_operator.kube.requests import path_of
from tests.support.builders import NAMESPACE, a_child, a_runtime_body, a_service_body, an_owner
from tests.support.reconcile_fixture import Cluster, cluster_with

INTERNAL: dict[str, Any] = {"labels": {"networking.kserve.io/visibility": "cluster-local"}}
STOPPED: dict[str, Any] = {"annotations": {"serving.kserve.io/stop": "true"}}


def with_kserves_ingress(**fields: Any) -> Cluster:
    """A service that KServe's controller has had, with its Ingress, which has no label."""
    body = a_service_body(**fields)
    body["metadata"]["finalizers"] = ["inferenceservice.finalizers"]
    cluster = cluster_with(body, a_runtime_body())
    owned = {"name": "torchserve", "namespace": NAMESPACE, "ownerReferences": [an_owner()]}
    cluster.api.put(a_child("Ingress", metadata=owned))
    return cluster


@pytest.mark.parametrize("fields", [INTERNAL, STOPPED])
async def test_kserves_ingress_is_deleted_if_none_is_rendered_and_looked_up_once(fields: dict[str, Any]) -> None:
    cluster = with_kserves_ingress(**fields)

    calls = [call for _ in range(3) for call in await cluster.reconcile() if "ingresses" in call]

    assert calls == ["GET ingresses/torchserve", "PATCH ingresses/torchserve", "DELETE ingresses/torchserve"]
    assert cluster.api.get("Ingress", NAMESPACE, "torchserve") is None
    assert await cluster.reconcile() == []


async def test_kserves_ingress_is_looked_up_again_if_it_changes_at_that_moment() -> None:
    cluster = with_kserves_ingress(**STOPPED)
    label = ("PATCH", path_of("Ingress", NAMESPACE, "torchserve"))
    cluster.api.failing[label] = Conflict(409, "the object has been modified")
    with pytest.raises(Conflict):
        await cluster.reconcile()
    cluster.api.failing.clear()

    await cluster.reconcile()
    assert await cluster.reconcile() == ["DELETE ingresses/torchserve"]


async def test_kserves_httproutes_stay_until_the_ingress_that_replaces_them_was_there_for_a_drain_period() -> None:
    cluster = with_kserves_ingress()
    cluster.api.remove("Ingress", NAMESPACE, "torchserve")
    names = ["torchserve", "torchserve-predictor"]
    for name in names:
        owned = {"name": name, "namespace": NAMESPACE, "ownerReferences": [an_owner()]}
        cluster.api.put(a_child("HTTPRoute", metadata=owned))

    calls = [call for _ in range(3) for call in await cluster.reconcile() if "httproutes" in call]
    assert [call for call in calls if not call.startswith("GET")] == [f"PATCH httproutes/{name}" for name in names]

    cluster.seconds.passed += DRAIN_SECONDS
    assert await cluster.reconcile() == [f"DELETE httproutes/{name}" for name in names]
    assert await cluster.reconcile() == []


async def test_an_ingress_of_somebody_elses_stays_where_none_is_wanted() -> None:
    cluster = with_kserves_ingress(**INTERNAL)
    cluster.api.remove("Ingress", NAMESPACE, "torchserve")
    mine = cluster.api.put(a_child("Ingress", metadata={"name": "torchserve", "namespace": NAMESPACE}))

    await cluster.reconcile()

    assert cluster.child("Ingress") == mine


async def test_no_ingress_is_looked_up_if_kserve_never_managed_the_service() -> None:
    cluster = cluster_with(a_service_body(**INTERNAL), a_runtime_body())

    assert not any("ingresses" in call for call in await cluster.reconcile())
