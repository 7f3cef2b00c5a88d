"""Transformers, explainers and the user's own containers on a real API server: accepted, applied, ready."""

from __future__ import annotations

import json
from typing import Any

from isvc_operator.controller.children import DRAIN_SECONDS
from tests.support.apiserver import ApiServer
from tests.support.namespace import Namespace, story_service
from tests.support.operator_process import OPERATOR
from tests.support.waiting import eventually

NAMES = ("torchserve-predictor", "torchserve-transformer", "torchserve-explainer")
WRAPPER = {"containers": [{"image": "registry.example/wrapper:1"}]}
WITHOUT = [{"op": "remove", "path": "/spec/transformer"}]


def apply(namespace: Namespace, name: str = "torchserve", **spec: Any) -> None:
    service = story_service(name)
    service["spec"] |= spec
    namespace.apply(service)


def test_every_component_gets_a_deployment_and_a_service_and_the_service_waits_for_all(
    running_operator: None, namespace: Namespace
) -> None:
    apply(namespace, transformer=WRAPPER, explainer=WRAPPER)
    for name in NAMES:
        namespace.wait_for("service", name)
        assert namespace.condition("Ready").get("status") != "True"
        namespace.play_finished_rollout(name)
    namespace.wait_for_condition("Ready", "True")

    service = namespace.find("inferenceservice", "torchserve") or {}
    types = {item["type"]: item["status"] for item in service["status"]["conditions"]}
    assert types == {
        **dict.fromkeys(("PredictorReady", "TransformerReady", "ExplainerReady", "IngressReady", "Ready"), "True"),
        "Progressing": "True",
        "Stopped": "False",
    }
    assert service["status"]["address"]["url"] == f"http://{NAMES[1]}.{namespace.name}.svc.cluster.local"
    assert sorted(service["status"]["components"]) == ["explainer", "predictor", "transformer"]


def test_what_the_api_server_adds_to_the_children_is_not_taken_for_a_difference(
    running_operator: None, apiserver: ApiServer, namespace: Namespace, another_namespace: Namespace
) -> None:
    apply(namespace, transformer=WRAPPER, explainer=WRAPPER)
    for name in NAMES:
        namespace.play_finished_rollout(name)
    namespace.wait_until_ready()
    since = apiserver.position()

    namespace.kubectl("label", "deployment", NAMES[1], "someone/else=was-here")
    apply(another_namespace)
    another_namespace.wait_for("deployment", NAMES[0])

    assert [call for call in apiserver.calls(OPERATOR, since) if call.namespace == namespace.name] == []


def test_traffic_goes_to_a_transformer_only_while_it_serves(running_operator: None, namespace: Namespace) -> None:
    apply(namespace)
    namespace.play_finished_rollout()
    namespace.wait_for_condition("Ready", "True")

    apply(namespace, transformer=WRAPPER)
    namespace.wait_for_condition("TransformerReady", "Unknown")
    assert backends(namespace) == {NAMES[0]}
    namespace.play_finished_rollout(NAMES[1])
    eventually(lambda: backends(namespace) == {NAMES[0], NAMES[1]}, "the Ingress leads to the transformer")
    namespace.wait_for_condition("Ready", "True")

    namespace.kubectl("patch", "inferenceservice", "torchserve", "--type=json", f"--patch={json.dumps(WITHOUT)}")
    eventually(lambda: backends(namespace) == {NAMES[0]}, "the Ingress leads to the predictor")
    assert namespace.find("deployment", NAMES[1])
    eventually(lambda: not namespace.find("deployment", NAMES[1]), "the transformer is gone", within=2 * DRAIN_SECONDS)


def backends(namespace: Namespace) -> set[str]:
    ingress = namespace.wait_for("ingress", "torchserve")
    paths = [path for rule in ingress["spec"]["rules"] for path in rule["http"]["paths"]]
    return {path["backend"]["service"]["name"] for path in paths}
