"""What the service's Events tell of pods that are replaced, and of what others had changed."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator import __version__, decide
from isvc_operator.api.names import ANNOTATION_RENDERED
from isvc_operator.config import parse_config
from isvc_operator.render import deployment
from tests.support.builders import NAMESPACE, a_runtime_body
from tests.support.reconcile_fixture import Cluster, watched

IMAGE = "spec.containers[kserve-container].image"
REVISION = "deployment.kubernetes.io/revision"
SHARED = "isvc-operator.io/shared-inputs"
NEXT = {"image": "registry.example/next:1"}
PODS = "Deployment torchserve-predictor gets new pods"
Told = list[tuple[str, str, str]]


async def told(cluster: Cluster) -> Told:
    """The Events about changes that the next reconciles record."""
    before = len(cluster.api.events)
    await cluster.settle()
    events = cluster.api.events[before:]
    return [
        (event["type"], event["reason"], event["message"])
        for event in events
        if event["reason"] in ("RolloutUpdated", "DriftCorrected")
    ]


def rolled_out(why: str) -> Told:
    return [("Normal", "RolloutUpdated", f"Deployment torchserve-predictor gets {why}")]


def corrected(what: str) -> Told:
    return [("Normal", "DriftCorrected", what)]


def noted(cluster: Cluster, **notes: str) -> Cluster:
    """The Deployment with other annotations."""
    child = cluster.child("Deployment")
    annotations = {**child["metadata"]["annotations"], **notes}
    cluster.api.put({**child, "metadata": {**child["metadata"], "annotations": annotations}})
    return cluster


def an_entry(manager: str, fields: dict[str, Any], **entry: str) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields, **entry}


def with_image(cluster: Cluster, manager: str, image: str = "mine:1") -> None:
    """What `kubectl set image` does."""
    child = cluster.child("Deployment")
    template = child["spec"]["template"]
    server, *others = template["spec"]["containers"]
    pod = {**template["spec"], "containers": [{**server, "image": image}, *others]}
    containers = {"f:containers": {'k:{"name":"kserve-container"}': {"f:image": {}}}}
    entry = an_entry(manager, {"f:spec": {"f:template": {"f:spec": containers}}})
    metadata = {**child["metadata"], "managedFields": [entry]}
    spec = {**child["spec"], "template": {**template, "spec": pod}}
    cluster.api.put({**child, "metadata": metadata, "spec": spec})


async def test_a_change_of_the_service(serving: Cluster) -> None:
    serving.edit_service(model={"args": ["--debug"]})

    why = "new pods after a change of the InferenceService: spec.containers[kserve-container].args"
    assert await told(serving) == rolled_out(why)


async def test_another_runtime_and_the_service_that_names_it(serving: Cluster) -> None:
    serving.cache.put(a_runtime_body("mine", container=NEXT))
    serving.edit_service(model={"runtime": "mine"})

    assert await told(serving) == rolled_out(
        "new pods after a change of the InferenceService and ClusterServingRuntime/kserve-torchserve and "
        f"ClusterServingRuntime/mine: {IMAGE}"
    )


async def test_a_change_of_the_configuration(serving: Cluster) -> None:
    serving.reconciler.use(parse_config({"security": '{"autoMountServiceAccountToken": true}'}))

    why = "new pods after a change of ConfigMap/inferenceservice-config: spec.automountServiceAccountToken"
    assert await told(serving) == rolled_out(why)


async def test_a_change_while_no_operator_ran(serving: Cluster) -> None:
    restarted = watched(serving.api, serving.clock, a_runtime_body(container=NEXT))

    why = f"new pods after a change of ClusterServingRuntime/kserve-torchserve: {IMAGE}"
    assert await told(restarted) == rolled_out(why)


async def test_a_newer_version_of_the_operator(serving: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "__version__", "9.9.9")
    before = deployment._completed
    monkeypatch.setattr(deployment, "_completed", lambda item: {**before(item), "tty": True})
    auto = parse_config({"inferenceService": '{"upgradePolicy": "Auto"}'})
    upgraded = watched(serving.api, serving.clock, a_runtime_body(), config=auto)

    assert await told(upgraded) == rolled_out(
        f"new pods after a change of the operator's version ({__version__} to 9.9.9): "
        "spec.containers[kserve-container].tty"
    )


async def test_a_change_that_replaces_no_pods_is_not_told(serving: Cluster) -> None:
    serving.edit_service(predictor={"minReplicas": 3})

    assert await told(serving) == []


async def test_an_edit_while_no_operator_ran_is_told_as_well(serving: Cluster) -> None:
    with_image(serving, "kubectl-set")
    restarted = watched(serving.api, serving.clock, a_runtime_body())

    assert await told(restarted) == corrected(
        f"Deployment torchserve-predictor: kubectl-set has changed spec.template.{IMAGE}, which is restored; {PODS}"
    )


async def test_the_same_edit_is_told_once_and_that_of_another_client_again(serving: Cluster) -> None:
    found = []
    for manager in ("kubectl-set", "kubectl-set", "rewriter"):
        with_image(serving, manager)
        found += await told(serving)

    assert [message.split()[2] for _, _, message in found] == ["kubectl-set", "rewriter"]


async def test_an_edit_beside_the_pods(serving: Cluster) -> None:
    serving.edit_service(predictor={"minReplicas": 2})
    await serving.settle()
    child = serving.child("Deployment")
    fields = {"f:spec": {"f:replicas": {}}}
    entry = an_entry("kubectl", fields, subresource="scale")
    metadata = {**child["metadata"], "managedFields": [entry]}
    serving.api.put({**child, "metadata": metadata, "spec": {**child["spec"], "replicas": 5}})

    assert await told(serving) == corrected(
        "Deployment torchserve-predictor: kubectl has changed spec.replicas, which is restored"
    )


async def test_an_earlier_revision_that_is_put_back(serving: Cluster) -> None:
    """`kubectl rollout undo` puts back the annotations of the earlier ReplicaSet, too."""
    earlier = serving.child("Deployment")
    serving.edit_service(model={"args": ["--debug"]})
    await serving.settle()
    fields = {"f:metadata": {"f:annotations": {f"f:{ANNOTATION_RENDERED}": {}}}, "f:spec": {"f:template": {}}}
    managed = [an_entry("isvc-operator", {"f:spec": {"f:replicas": {}}}, operation="Apply")]
    managed.append(an_entry("kubectl-rollout", fields))
    serving.api.put({**earlier, "metadata": {**earlier["metadata"], "managedFields": managed}})
    restarted = watched(serving.api, serving.clock, a_runtime_body())

    ((_, reason, message),) = await told(restarted)

    assert reason == "DriftCorrected"
    assert message.startswith("Deployment torchserve-predictor: kubectl-rollout has changed ")
    assert message.endswith(f"spec.template.spec.containers[kserve-container].args, which is restored; {PODS}")
    assert restarted.child("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"] == ["--debug"]


async def test_a_child_that_is_deleted(serving: Cluster) -> None:
    serving.api.remove("Deployment", NAMESPACE, "torchserve-predictor")

    assert await told(serving) == corrected(
        "Deployment torchserve-predictor was deleted by another client (the API server's audit log says which), and is "
        "created again"
    )


@pytest.mark.parametrize("revision", ["", "3rd", "9" * 5000])
async def test_what_people_write_into_the_annotations_of_a_deployment_is_quoted_safely(
    serving: Cluster, revision: str
) -> None:
    noted(serving, **{REVISION: revision, SHARED: "Secret/\x1b[31m\nfaked=1," + "x" * 5000})
    serving.edit_service(model={"args": ["--debug"]})

    ((_, _, message),) = await told(serving)

    assert message.startswith("Deployment torchserve-predictor gets new pods after a change of the InferenceService")
    assert "Secret/\\x1b[31m\\nfaked" in message
    assert len(message) <= 1024
