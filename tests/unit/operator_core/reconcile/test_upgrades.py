"""A service that serves, and an operator of another version."""

from __future__ import annotations

import json

import pytest

from isvc_operator import __version__, decide
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.manifests import ServiceKey
from isvc_operator.render import deployment
from tests.support.builders import NAMESPACE, a_deployment_status, a_runtime_body, a_service_body
from tests.support.reconcile_fixture import STATUS, Cluster, cluster_with, first_update, watched

DEPLOYMENT = "deployments/torchserve-predictor"


@pytest.fixture
def newer_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, the operator is version 9.9.9, which renders another field."""
    monkeypatch.setattr(decide, "__version__", "9.9.9")
    before = deployment._completed
    monkeypatch.setattr(deployment, "_completed", lambda item: {**before(item), "terminationMessagePolicy": "File"})


def upgraded(serving: Cluster) -> Cluster:
    return watched(serving.api, serving.clock, a_runtime_body())


def policy_of_termination(cluster: Cluster) -> str:
    template = cluster.child("Deployment")["spec"]["template"]
    return str(template["spec"]["containers"][0]["terminationMessagePolicy"])


def types(cluster: Cluster) -> list[str]:
    return [item["type"] for item in cluster.service["status"]["conditions"]]


async def test_the_pods_stay_and_the_service_says_what_waits(serving: Cluster, newer_version: None) -> None:
    template = serving.child("Deployment")["spec"]["template"]
    cluster = upgraded(serving)

    assert await cluster.reconcile() == [*first_update(DEPLOYMENT), STATUS, "POST events"]

    waits = cluster.condition("PodsOutdated")
    assert cluster.child("Deployment")["spec"]["template"] == template
    assert (waits["status"], waits["severity"], waits["reason"]) == ("True", "Info", "OperatorUpgraded")
    assert waits["message"] == (
        "A newer version of the operator has another pod template, and replaces no pods by itself: the pods of "
        f"spec.predictor have the template of version {__version__}, which 9.9.9 changes in "
        "spec.containers[kserve-container].terminationMessagePolicy. They get the newer one when the service, its "
        "runtime or the configuration of its pods changes, or with the annotation isvc-operator.io/upgrade-policy: Auto"
    )
    event = cluster.api.events[-1]
    assert (event["type"], event["reason"], event["message"]) == ("Normal", "OperatorUpgraded", waits["message"])
    assert [cluster.condition(name)["status"] for name in ("Ready", "Progressing")] == ["True", "True"]


async def test_from_then_on_nothing_is_written(serving: Cluster, newer_version: None) -> None:
    cluster = upgraded(serving)
    await cluster.settle()

    assert await upgraded(serving).reconcile() == []


async def test_a_change_of_the_pods_brings_the_newer_template(serving: Cluster, newer_version: None) -> None:
    cluster = upgraded(serving)
    await cluster.settle()
    cluster.edit_service(generation=2, model={"args": ["--debug"]})
    await cluster.settle()

    assert policy_of_termination(cluster) == "File"
    assert "PodsOutdated" not in types(cluster)


# --- many services with Auto --------------------------------------------------------------------------------


KEYS = [ServiceKey(NAMESPACE, f"service-{number}") for number in range(4)]


@pytest.fixture
async def several() -> Cluster:
    """Several services that are up."""
    services = [a_service_body(key.name, uid=f"uid-of-{key.name}") for key in KEYS]
    cluster = cluster_with(services[0], a_runtime_body())
    for service in services[1:]:
        cluster.api.put(service)
    cluster.api.feed(cluster.cache)
    for key in KEYS:
        await cluster.reconciler.reconcile(key)
        deployment = cluster.api.get("Deployment", NAMESPACE, f"{key.name}-predictor") or {}
        cluster.api.put({**deployment, "status": a_deployment_status()})
    return cluster


def reason_of_waiting(cluster: Cluster, key: ServiceKey) -> str | None:
    service = cluster.api.get("InferenceService", *key) or {}
    conditions = service["status"]["conditions"]
    return next((item["reason"] for item in conditions if item["type"] == "PodsOutdated"), None)


def a_rate(**fields: object) -> OperatorConfig:
    return parse_config({"inferenceService": json.dumps({"rolloutsPerMinute": 30, **fields})})


def another_runtime(several: Cluster, config: OperatorConfig) -> Cluster:
    """The cluster with an operator that has just been started, after the runtime has got another image."""
    after = watched(
        several.api, several.clock, a_runtime_body(container={"image": "registry.example/next:1"}), config=config
    )
    after.api.feed(after.cache)
    return after


async def test_pods_follow_the_operator_one_service_after_the_other(several: Cluster, newer_version: None) -> None:
    after = watched(several.api, several.clock, a_runtime_body(), config=a_rate(upgradePolicy="Auto"))
    after.api.feed(after.cache)

    waits = [await after.reconciler.reconcile(key) for key in KEYS]
    reasons = [reason_of_waiting(after, key) for key in KEYS]

    assert waits == [None, 2.0, 4.0, 6.0]
    assert reasons == [None, *["RolloutQueued"] * 3]
    assert [await after.reconciler.reconcile(key) for key in KEYS] == waits, "a turn is kept"
    assert [event["reason"] for event in after.api.events if event["reason"] == "OperatorUpgraded"] == []
    after.seconds.passed = 4.0
    assert [await after.reconciler.reconcile(key) for key in KEYS] == [None, None, 2.0, 4.0]
    assert [reason_of_waiting(after, key) for key in KEYS] == [None, None, *["RolloutQueued"] * 2]


async def test_so_they_do_after_a_change_of_their_runtime_and_say_what_waits(several: Cluster) -> None:
    after = another_runtime(several, a_rate())
    writes = len(after.api.calls)

    assert [await after.reconciler.reconcile(key) for key in KEYS] == [None, 2.0, 4.0, 6.0]

    written = [f"{call.method} {call.path.rpartition('/namespaces/')[2]}" for call in after.api.calls[writes:]]
    assert [line for line in written if "deployments/" in line] == first_update(
        f"{NAMESPACE}/deployments/service-0-predictor"
    )
    service = after.api.get("InferenceService", *KEYS[1]) or {}
    (waiting,) = [item for item in service["status"]["conditions"] if item["type"] == "PodsOutdated"]
    assert (waiting["status"], waiting["severity"], waiting["reason"]) == ("True", "Info", "RolloutQueued")
    assert waiting["message"] == (
        "Something that services share has changed (a runtime, the configuration, the operator's version), and they "
        "get new pods in turn, so many a minute (rolloutsPerMinute). The pods differ: of spec.predictor in "
        "spec.containers[kserve-container].image"
    )


async def test_an_operator_that_is_restarted_goes_on_at_the_rate(several: Cluster) -> None:
    first = another_runtime(several, a_rate())
    for key in KEYS:
        await first.reconciler.reconcile(key)

    second = another_runtime(first, a_rate())

    assert [await second.reconciler.reconcile(key) for key in KEYS] == [None, None, 2.0, 4.0]


async def test_one_whose_pods_were_replaced_waits_for_a_turn_at_the_next_change(several: Cluster) -> None:
    after = another_runtime(several, a_rate())
    before = await after.reconciler.reconcile(KEYS[0])
    after.cache.put(a_runtime_body(container={"image": "registry.example/third:1"}))

    assert [before, await after.reconciler.reconcile(KEYS[0])] == [None, 2.0]
