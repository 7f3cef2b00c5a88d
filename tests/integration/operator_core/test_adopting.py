"""Services that KServe's controller has managed: their children are adopted, and they can be deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.kserves_children import an_autoscaler, an_ingress, childs_metadata, kserves_deployment, owned_by
from tests.support.namespace import Namespace, story_service
from tests.support.waiting import eventually

PREDICTOR = "torchserve-predictor"
RENDERED = "isvc-operator.io/rendered"


def test_a_service_of_kserves_can_be_deleted(running_operator: None, namespace: Namespace) -> None:
    service = story_service()
    service["metadata"]["finalizers"] = ["inferenceservice.finalizers"]
    namespace.apply(service)
    namespace.wait_for_condition("Ready", "Unknown")

    namespace.kubectl("delete", "inferenceservice", "torchserve", "--wait=false")

    eventually(lambda: namespace.find("inferenceservice", "torchserve") is None, "the service is gone")


def test_a_finalizer_of_somebody_else_stays(running_operator: None, namespace: Namespace) -> None:
    service = story_service()
    service["metadata"]["finalizers"] = ["inferenceservice.finalizers", "example.com/backup"]
    namespace.apply(service)
    namespace.kubectl("delete", "inferenceservice", "torchserve", "--wait=false")

    def finalizers() -> list[str]:
        return (namespace.find("inferenceservice", "torchserve") or {})["metadata"]["finalizers"]

    eventually(lambda: finalizers() == ["example.com/backup"], "KServe's finalizer is gone, and no other")
    namespace.kubectl("patch", "inferenceservice", "torchserve", "--type=merge", '-p={"metadata":{"finalizers":[]}}')


# --- children -------------------------------------------------------------------------------------------


def test_a_deployment_of_kserves_becomes_what_is_rendered(running_operator: None, namespace: Namespace) -> None:
    service = waiting_service(namespace)
    make_as("manager", namespace, kserves_deployment(service))
    namespace.kubectl("annotate", "deployment", PREDICTOR, "mine=stays")

    namespace.apply_story()

    deployment = adopted(namespace, "deployment", PREDICTOR)
    (server,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"tcpSocket", "httpGet"} & server["readinessProbe"].keys() == {"httpGet"}
    assert "OF_KSERVE" not in [item["name"] for item in server["env"]]
    assert {"mine", "of-kserve"} & deployment["metadata"]["annotations"].keys() == {"mine"}


def test_pods_of_kserves_stay_while_the_service_requests_a_canary(running_operator: None, namespace: Namespace) -> None:
    service = waiting_service(namespace)
    make_as("manager", namespace, kserves_deployment(service))
    namespace.play_finished_rollout()
    before = namespace.wait_for("deployment", PREDICTOR)["spec"]["template"]

    namespace.apply_story(canaryTrafficPercent=20)

    assert adopted(namespace, "deployment", PREDICTOR)["spec"]["template"] == before
    namespace.wait_for_condition("ChangeHeldBack", "True", "CanaryNotSupported")


def test_the_autoscaler_of_kserve_becomes_what_is_rendered_at_its_live_size(
    running_operator: None, namespace: Namespace
) -> None:
    service = waiting_service(namespace)
    deployment = kserves_deployment(service)
    deployment["spec"]["replicas"] = 4
    make_as("manager", namespace, deployment, an_autoscaler(childs_metadata(service), PREDICTOR))

    namespace.apply_story(minReplicas=1, maxReplicas=5)

    autoscaler = adopted(namespace, "horizontalpodautoscaler", PREDICTOR)
    assert (autoscaler["spec"]["minReplicas"], autoscaler["spec"]["maxReplicas"]) == (1, 5)
    assert "of-kserve" not in autoscaler["metadata"]["annotations"]
    assert adopted(namespace, "deployment", PREDICTOR)["spec"]["replicas"] == 4


def test_the_autoscaler_of_kserve_is_deleted_where_it_has_no_room_and_no_other(
    running_operator: None, namespace: Namespace
) -> None:
    service = waiting_service(namespace)
    kserves, mine = an_autoscaler(childs_metadata(service), PREDICTOR), an_autoscaler({}, "mine")
    make_as("manager", namespace, kserves_deployment(service), kserves, mine)

    namespace.apply_story(minReplicas=2)

    assert adopted(namespace, "deployment", PREDICTOR)["spec"]["replicas"] == 2
    eventually(lambda: namespace.find("horizontalpodautoscaler", PREDICTOR) is None, "KServe's is gone")
    assert namespace.find("horizontalpodautoscaler", "mine") is not None


def test_an_unlabelled_ingress_of_kserve_is_adopted(running_operator: None, namespace: Namespace) -> None:
    service = waiting_service(namespace)
    make_as("manager", namespace, an_ingress(owned_by(service)))

    namespace.apply_story()

    ingress = adopted(namespace, "ingress", "torchserve")
    assert "old.example.com" not in [rule["host"] for rule in ingress["spec"]["rules"]]
    assert "of-kserve" not in ingress["metadata"]["annotations"]
    namespace.wait_for_condition("IngressReady", "True")
    assert namespace.condition("Ready")["status"] == "Unknown"


def test_an_ingress_of_kserve_is_deleted_if_none_is_rendered(running_operator: None, namespace: Namespace) -> None:
    service = waiting_service(namespace)
    finalizer = {"metadata": {"finalizers": ["inferenceservice.finalizers"]}}
    namespace.kubectl("patch", "inferenceservice", "torchserve", "--type=merge", f"--patch={json.dumps(finalizer)}")
    make_as("manager", namespace, an_ingress(owned_by(service)))

    namespace.kubectl("annotate", "inferenceservice", "torchserve", "serving.kserve.io/stop=true")

    eventually(lambda: namespace.find("ingress", "torchserve") is None, "the Ingress is gone")


# --- pods while they change hands --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["the service names an external autoscaler", "minReplicas is left out"])
def test_pods_stay_when_somebody_else_is_to_scale_them(running_operator: None, namespace: Namespace, how: str) -> None:
    namespace.apply_story(minReplicas=5)
    before = namespace.wait_for("deployment", PREDICTOR)

    if how == "minReplicas is left out":
        namespace.apply_story()
    else:
        annotation = "serving.kserve.io/autoscalerClass=external"
        namespace.kubectl("annotate", "inferenceservice", "torchserve", annotation)

    def changed() -> dict[str, Any] | None:
        found = namespace.find("deployment", PREDICTOR) or before
        marks = [item["metadata"]["annotations"]["isvc-operator.io/rendered"] for item in (before, found)]
        return None if marks[0] == marks[1] else found

    assert before["spec"]["replicas"] == 5
    assert eventually(changed, "the Deployment is rendered anew")["spec"]["replicas"] == 5
    namespace.kubectl("scale", "deployment", PREDICTOR, "--replicas=2")
    namespace.apply_story(model={**story_service()["spec"]["predictor"]["model"], "args": ["--debug"]})

    def rolled() -> dict[str, Any] | None:
        found = namespace.find("deployment", PREDICTOR) or {}
        return found if "--debug" in found["spec"]["template"]["spec"]["containers"][0]["args"] else None

    assert eventually(rolled, "the new argument is in the template")["spec"]["replicas"] == 2


# --- two services of one name -----------------------------------------------------------------------------


def test_a_service_does_not_take_the_children_of_another(running_operator: None, namespace: Namespace) -> None:
    first, second = story_service(), story_service()
    first["metadata"]["name"], first["spec"]["predictor"]["name"] = "a", "b"
    second["metadata"]["name"] = "a-b"
    namespace.apply(first)
    namespace.wait_for("ingress", "a")
    before = namespace.wait_for("deployment", "a-b-predictor")

    namespace.apply(second)

    condition = namespace.wait_for_condition("Ready", "False", "ReconcileFailed", service="a-b")
    assert condition["message"] == (
        "Deployment a-b-predictor belongs to InferenceService a; "
        "rename one of the two, or the predictor of one (spec.predictor.name)"
    )
    assert namespace.find("deployment", "a-b-predictor") == before
    assert namespace.find("ingress", "a-b") is None
    assert namespace.condition("Ready", "a")["status"] == "Unknown"


# --- objects as KServe creates them --------------------------------------------------------------------


def waiting_service(namespace: Namespace) -> dict[str, Any]:
    """The story's service before the operator has touched its children: its runtime is not there yet."""
    model = story_service()["spec"]["predictor"]["model"]
    namespace.apply_story(model={**model, "runtime": "not-there"})
    namespace.wait_for_condition("Ready", "False")
    return namespace.wait_for("inferenceservice", "torchserve")


def make_as(manager: str, namespace: Namespace, *objects: dict[str, Any]) -> None:
    for item in objects:
        namespace.kubectl("create", f"--field-manager={manager}", "--filename=-", stdin=json.dumps(item))


def adopted(namespace: Namespace, kind: str, name: str) -> dict[str, Any]:
    def rendered() -> dict[str, Any] | None:
        found = namespace.find(kind, name) or {}
        return found if RENDERED in found["metadata"].get("annotations", {}) else None

    return eventually(rendered, f"{kind} {name} is adopted")
