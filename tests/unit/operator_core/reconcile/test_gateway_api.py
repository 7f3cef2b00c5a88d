"""A service whose hosts are HTTPRoutes, and a cluster in which the Gateway API is not installed yet."""

from __future__ import annotations

import pytest

from isvc_operator.config import IngressConfig, OperatorConfig
from isvc_operator.controller.children import DRAIN_SECONDS, MISSING_SECONDS
from isvc_operator.kube.errors import KubeError, ObjectNotFound, RequestRefused
from isvc_operator.kube.requests import path_of
from tests.support.builders import NAMESPACE, a_ready_pod, a_runtime_body, a_service_body
from tests.support.reconcile_fixture import FIRST_CALLS, Cluster, cluster_with

GATEWAY_API = OperatorConfig(ingress=IngressConfig(enable_gateway_api=True))
INGRESS = OperatorConfig()
NAMES = ("torchserve", "torchserve-predictor")
CREATED = [f"POST httproutes/{name}" for name in NAMES]


def a_cluster(config: OperatorConfig = GATEWAY_API) -> Cluster:
    return cluster_with(a_service_body(), a_runtime_body(), config=config)


def ready(cluster: Cluster) -> tuple[str, str | None]:
    condition = cluster.condition("IngressReady")
    return condition["status"], condition.get("reason")


def accept(cluster: Cluster) -> None:
    """What the gateway's controller does."""
    for name in NAMES:
        route = cluster.api.get("HTTPRoute", NAMESPACE, name)
        assert route is not None
        seen = {"type": "Accepted", "status": "True", "observedGeneration": route["metadata"]["generation"]}
        parents = [{"parentRef": route["spec"]["parentRefs"][0], "conditions": [seen]}]
        cluster.api.put({**route, "status": {"parents": parents}})


GONE = ObjectNotFound(404, "the server could not find the requested resource")
GOING = RequestRefused(403, "forbidden: create not allowed while custom resource definition is terminating")


def missing(error: KubeError = GONE) -> dict[tuple[str, str], KubeError]:
    return {("POST", path_of("HTTPRoute", NAMESPACE, name)): error for name in NAMES}


@pytest.mark.parametrize("error", [GONE, GOING])
async def test_without_the_gateway_api_a_service_is_served_and_says_what_is_missing(error: KubeError) -> None:
    cluster = a_cluster()
    cluster.api.failing.update(missing(error))
    await cluster.reconcile()
    cluster.roll_out(a_ready_pod())
    await cluster.settle()

    assert ready(cluster) == ("False", "GatewayApiNotInstalled")
    assert cluster.condition("PredictorReady")["status"] == "True"
    assert await cluster.reconcile() == []
    assert cluster.again == MISSING_SECONDS

    cluster.api.failing.clear()
    assert await cluster.reconcile() == []
    cluster.seconds.passed = MISSING_SECONDS
    assert [call for call in await cluster.reconcile() if "routes" in call] == CREATED


async def test_an_ingress_is_replaced_once_the_httproutes_are_accepted_and_back_again() -> None:
    cluster = a_cluster(INGRESS)
    assert await cluster.reconcile() == FIRST_CALLS
    await cluster.settle()

    cluster.reconciler.use(GATEWAY_API)
    await cluster.settle()
    assert await delete_after_drain(cluster) == []
    accept(cluster)
    assert await delete_after_drain(cluster) == ["DELETE ingresses/torchserve"]

    cluster.reconciler.use(INGRESS)
    assert await delete_after_drain(cluster) == [f"DELETE httproutes/{name}" for name in NAMES]


async def delete_after_drain(cluster: Cluster) -> list[str]:
    await cluster.settle()
    cluster.seconds.passed += DRAIN_SECONDS
    return [call for call in await cluster.reconcile() if call.startswith("DELETE")]


async def test_while_the_gateway_api_is_missing_the_ingress_stays() -> None:
    cluster = a_cluster(INGRESS)
    await cluster.settle()
    cluster.api.failing.update(missing())

    cluster.reconciler.use(GATEWAY_API)

    assert await delete_after_drain(cluster) == []
    assert cluster.child("Ingress")["metadata"]["name"] == "torchserve"
