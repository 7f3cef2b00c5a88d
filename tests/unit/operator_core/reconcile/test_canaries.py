"""A service that serves, and a change that is meant for a share of its callers."""

from __future__ import annotations

from isvc_operator.errors import InvalidSpec
from tests.support.builders import a_runtime_body
from tests.support.reconcile_fixture import STATUS, Cluster, first_update

CANARY = {"canaryTrafficPercent": 20}
CHANGE = {"args": ["--debug"]}


def image_and_args(cluster: Cluster) -> tuple[str, list[str]]:
    server = cluster.child("Deployment")["spec"]["template"]["spec"]["containers"][0]
    return server["image"], server.get("args", [])


async def test_a_change_of_the_pods_is_held_back_and_reported(serving: Cluster) -> None:
    before = image_and_args(serving)
    serving.edit_service(generation=2, model=CHANGE, predictor=CANARY)

    calls = await serving.reconcile()

    held = serving.condition("ChangeHeldBack")
    assert calls == [*first_update("deployments/torchserve-predictor"), STATUS, "POST events", "POST events"]
    assert image_and_args(serving) == before
    assert (held["status"], held["severity"], held["reason"]) == ("True", "Warning", "CanaryNotSupported")
    assert held["message"] == (
        "The pods of spec.predictor keep their previous template: spec.predictor.canaryTrafficPercent: 20 requests a "
        "canary, which is not supported, and without one all callers would get the change. To roll a change out to all "
        "callers, remove spec.canary, and canaryTrafficPercent or set it to 100"
    )
    assert serving.api.events[-1]["reason"] == "CanaryNotSupported"
    assert serving.condition("Ready")["status"] == "True"
    assert serving.condition("Ready")["message"].startswith("The last change is held back")


async def test_the_runtime_that_serves_is_the_one_in_the_status(serving: Cluster) -> None:
    other = a_runtime_body("other", container={"image": "other:1"})
    serving.cache.put(other)
    serving.edit_service(generation=2, model={"runtime": "other"}, predictor=CANARY)
    await serving.settle()

    assert serving.service["status"]["clusterServingRuntimeName"] == "kserve-torchserve"


async def test_a_predictor_of_another_name_is_refused_and_the_old_one_serves(serving: Cluster) -> None:
    serving.edit_service(generation=2, predictor={"name": "next", **CANARY})

    await serving.settle()

    ready = serving.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", InvalidSpec("").reason)
    assert "spec.predictor.name is not that of Deployment torchserve-predictor" in ready["message"]
    assert serving.child("Deployment")
