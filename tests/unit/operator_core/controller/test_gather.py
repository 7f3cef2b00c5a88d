"""What one reconcile reads."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.api.parsing import parse_inference_service, parse_serving_runtime
from isvc_operator.api.serving_runtime import ServingRuntime
from isvc_operator.config import OperatorConfig
from isvc_operator.controller.gather import gather, read_service
from isvc_operator.decide import Inputs
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.manifests import ServiceKey
from isvc_operator.resolve.runtime import Runtimes
from tests.support.builders import (
    NAMESPACE,
    a_child,
    a_deployment,
    a_ready_pod,
    a_runtime,
    a_runtime_body,
    a_service,
    a_service_body,
)
from tests.support.refused_documents import BROKEN_RULES
from tests.support.sample_services import ACCEPTED, model, service

KEY, CONFIG = ServiceKey(NAMESPACE, "torchserve"), OperatorConfig()
METADATA = a_child()["metadata"]


def cache_with(*objects: dict[str, Any]) -> Cache:
    cache = Cache()
    for item in objects:
        cache.put({**item, "metadata": {"uid": "u", "resourceVersion": "1", **item["metadata"]}})
    return cache


def test_a_service_its_runtimes_and_children_are_read() -> None:
    ours, theirs = a_runtime_body("ours", namespace=NAMESPACE), a_runtime_body("theirs", namespace="elsewhere")
    cluster = a_runtime_body()

    gathered = gather(cache_with(a_service_body(), a_deployment(), a_ready_pod(), ours, theirs, cluster), KEY, CONFIG)

    assert gathered is not None
    assert gathered.body == a_service_body()
    assert [item["kind"] for item in gathered.children] == ["Deployment"]
    assert [item.metadata.name for item in gathered.runtimes.namespaced] == ["ours"]
    assert [item.metadata.name for item in gathered.runtimes.cluster] == ["kserve-torchserve"]


def test_budgets_of_others_in_the_namespace_are_read() -> None:
    def budget(name: str, namespace: str = NAMESPACE, **metadata: Any) -> dict[str, Any]:
        return {"kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": namespace, **metadata}}

    ours = budget("ours", ownerReferences=METADATA["ownerReferences"])

    gathered = gather(cache_with(a_service_body(), budget("mine"), budget("far", "elsewhere"), ours), KEY, CONFIG)

    assert gathered is not None
    assert [item["metadata"]["name"] for item in gathered.budgets] == ["mine"]


HEADLESS: dict[str, tuple[list[dict[str, Any]], bool | None]] = {
    "none": ([], None),
    "one with an address": ([a_child("Service", spec={"clusterIP": "10.0.0.1"})], False),
    "one without": ([a_child("Service", spec={"clusterIP": "None"})], True),
    "one of somebody else": ([{**a_child("Service"), "metadata": {**METADATA, "ownerReferences": []}}], None),
}


@pytest.mark.parametrize(("services", "headless"), HEADLESS.values(), ids=HEADLESS.keys())
def test_services_are_headless_as_they_were_made(services: list[dict[str, Any]], headless: bool | None) -> None:
    for new in (False, True):
        config = CONFIG.with_headless_services(new)
        gathered = gather(cache_with(a_service_body(), *services), KEY, config)

        assert gathered is not None
        assert gathered.own_config == CONFIG.with_headless_services(new if headless is None else headless)


def test_a_runtime_that_cannot_be_read_does_not_stop_the_others() -> None:
    broken = {**a_runtime_body("broken"), "spec": {"containers": "none"}}

    gathered = gather(cache_with(a_service_body(), broken, a_runtime_body()), KEY, CONFIG)

    told = "ClusterServingRuntime broken is not valid: spec.containers: Input should be a valid list"
    runtimes = Runtimes(cluster=(a_runtime(),), unreadable={"broken": told})
    assert gathered == Inputs(a_service_body(), a_service(), CONFIG, runtimes=runtimes)


def test_a_runtime_of_another_namespace_that_cannot_be_read_is_of_no_concern() -> None:
    broken = {**a_runtime_body("broken", namespace="elsewhere"), "spec": {"containers": "none"}}

    gathered = gather(cache_with(a_service_body(), broken), KEY, CONFIG)

    assert gathered == Inputs(a_service_body(), a_service(), CONFIG)


def test_an_object_is_parsed_once_for_each_of_its_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many services may use a runtime, and however large it is."""
    parsed = []

    def counted(body: dict[str, Any]) -> ServingRuntime:
        parsed.append(body["spec"])
        return parse_serving_runtime(body)

    monkeypatch.setattr("isvc_operator.controller.gather.parse_serving_runtime", counted)
    first, second = a_runtime_body(), a_runtime_body(protocols=["v2"])
    cache = cache_with(a_service_body(), first)

    found = [gather(cache, KEY, CONFIG) for _ in range(3)]
    cache.put({**second, "metadata": {**second["metadata"], "resourceVersion": "2"}})
    found += [gather(cache, KEY, CONFIG) for _ in range(3)]

    specs = [parse_serving_runtime(body).spec for body in (first, second)]
    assert parsed == [first["spec"], second["spec"]]
    assert [item and [one.spec for one in item.runtimes.cluster] for item in found] == [specs[:1]] * 3 + [specs[1:]] * 3


def of_kind(kind: str) -> dict[str, tuple[dict[str, Any], str, str]]:
    return {case: broken for case, broken in BROKEN_RULES.items() if broken[0]["kind"] == kind}


SERVICES, RUNTIMES = of_kind("InferenceService"), of_kind("ServingRuntime")


@pytest.mark.parametrize(("body", "path", "message"), SERVICES.values(), ids=SERVICES)
def test_a_service_that_is_older_than_a_rule_it_breaks_is_read_with_the_problem(
    body: dict[str, Any], path: str, message: str
) -> None:
    service, problem = read_service(body)

    assert service == parse_inference_service(body)
    assert problem is not None
    assert problem.reason == "InvalidPredictorSpec"
    assert problem.message.startswith(f"InferenceService {body['metadata']['name']} is not valid: {path}: ")
    assert message in problem.message


@pytest.mark.parametrize(("body", "path", "message"), RUNTIMES.values(), ids=RUNTIMES)
def test_a_runtime_that_is_older_than_a_rule_it_breaks_is_not_used(
    body: dict[str, Any], path: str, message: str
) -> None:
    placed = {**body, "metadata": {**body["metadata"], "namespace": NAMESPACE}}

    gathered = gather(cache_with(a_service_body(), placed), KEY, CONFIG)

    assert gathered is not None
    assert gathered.runtimes.namespaced == ()
    (said,) = gathered.runtimes.unreadable.values()
    assert said.startswith(f"ServingRuntime abacus is not valid: {path}: ")
    assert message in said


@pytest.mark.parametrize("body", ACCEPTED, ids=lambda body: body["metadata"]["name"])
def test_a_service_that_keeps_the_rules_has_no_problem(body: dict[str, Any]) -> None:
    assert read_service(body) == (parse_inference_service(body), None)


@pytest.mark.parametrize("value", [2**70, -(2**70), "\ud800", "\x00"], ids=repr)
def test_a_value_that_cel_cannot_hold_is_no_problem(value: object) -> None:
    strategy = {"rollingUpdate": {"maxSurge": value}}
    predictor = model() | {"deploymentStrategy": strategy, "labels": {str(value): str(value)}}

    assert read_service(service("a", predictor=predictor))[1] is None
