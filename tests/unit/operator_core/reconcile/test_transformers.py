"""A service with a transformer, and when traffic moves to it."""

from __future__ import annotations

from typing import Any

from isvc_operator.controller.pod_details import LOG_EVERY, READY_LATE
from tests.support.builders import a_container, a_pod, a_ready_pod, a_runtime_body, a_service_body, ended
from tests.support.reconcile_fixture import STATUS, Cluster, cluster_with

TRANSFORMER = {"containers": [{"image": "t:1"}]}
FRONT = "torchserve-transformer-1-a"


def a_front_pod(**fields: Any) -> dict[str, Any]:
    return a_pod(FRONT, component="transformer", phase="Running", **fields)


async def with_transformer() -> Cluster:
    """A service whose predictor serves, and whose transformer has just been added."""
    cluster = cluster_with(a_service_body(), a_runtime_body())
    await cluster.reconcile()
    cluster.roll_out(a_ready_pod())
    await cluster.settle()
    cluster.edit_service(generation=2, spec={"transformer": TRANSFORMER})
    return cluster


async def test_addresses_are_those_of_components_with_traffic() -> None:
    cluster = await with_transformer()
    before = cluster.service["status"]

    await cluster.settle()
    held = cluster.service["status"]
    cluster.roll_out(component="transformer")
    await cluster.settle()
    after = cluster.service["status"]

    assert (held["address"], held["components"]) == (before["address"], before["components"])
    assert after["address"]["url"] == "http://torchserve-transformer.models.svc.cluster.local"
    assert sorted(after["components"]) == ["predictor", "transformer"]


async def test_a_crash_of_the_transformer_is_not_the_predictors() -> None:
    cluster = await with_transformer()
    await cluster.settle()
    cluster.api.logs[f"{FRONT}/kserve-container"] = "unrecognized arguments: --predictor_host"
    cluster.api.put(a_front_pod(containers=[a_container(state=ended(2, "usage"))]))

    await cluster.reconcile()

    assert cluster.condition("PredictorReady")["status"] == "True"
    message = cluster.condition("TransformerReady")["message"]
    assert message.startswith(f"pod {FRONT}, container kserve-container ended with exit code 2: usage")
    assert message.endswith("unrecognized arguments: --predictor_host")


async def test_a_transformer_that_stays_not_ready_is_reported_with_its_log_and_without_calls_in_between() -> None:
    cluster = await with_transformer()
    await cluster.settle()
    cluster.api.put(a_front_pod(containers=[a_container()]))
    await cluster.reconcile()
    cluster.seconds.passed = 1
    await cluster.settle()
    cluster.api.logs[f"{FRONT}/kserve-container"] = "the predictor at http://nowhere is not ready"
    log = f"GET pods/{FRONT}/log"

    assert await cluster.reconcile() == []
    cluster.seconds.passed = READY_LATE
    assert await cluster.reconcile() == [log, STATUS]
    assert await cluster.reconcile() == []
    cluster.seconds.passed += LOG_EVERY
    assert await cluster.reconcile() == [log]

    assert cluster.condition("Ready")["message"].endswith(
        "Last log lines:\n| the predictor at http://nowhere is not ready"
    )
