"""Models in images on a real API server: what it accepts, and what it would leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.apiserver import ApiServer, Refused, running
from tests.support.builders import a_service, the_children
from tests.support.namespace import Namespace

PREDICTOR = "torchserve-predictor"


def apply_model(namespace: Namespace, uri: str) -> None:
    namespace.apply_story(model={"modelFormat": {"name": "pytorch"}, "storageUri": uri})


def test_a_restricted_namespace_accepts_a_pod_with_a_modelcar(
    running_operator: None, apiserver: ApiServer, namespace: Namespace
) -> None:
    """A Deployment is always accepted; so its pod is created, without being stored."""
    namespace.kubectl("label", "namespace", namespace.name, "pod-security.kubernetes.io/enforce=restricted")
    apply_model(namespace, "oci://registry.example/bert:1")
    template = namespace.wait_for("deployment", PREDICTOR)["spec"]["template"]

    created = create_pod(apiserver, namespace, template["spec"])

    assert [item["name"] for item in created["spec"]["initContainers"]] == ["modelcar", "modelcar-init"]
    assert created["spec"]["initContainers"][0]["restartPolicy"] == "Always"
    assert created["spec"]["shareProcessNamespace"] is True
    privileged = {**template["spec"], "containers": [{**template["spec"]["containers"][0], "securityContext": {}}]}
    with pytest.raises(Refused, match="violates PodSecurity"):
        create_pod(apiserver, namespace, privileged)


def create_pod(apiserver: ApiServer, namespace: Namespace, spec: dict[str, Any]) -> dict[str, Any]:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
    return apiserver.send("POST", f"/api/v1/namespaces/{namespace.name}/pods?dryRun=All&fieldValidation=Strict", pod)


def test_a_cluster_without_image_volumes_is_told(running_operator: None, namespace: Namespace) -> None:
    """Kubernetes 1.34 has them behind a feature gate, and leaves the volume out without a word."""
    apply_model(namespace, "oci+native://registry.example/bert:1")

    condition = namespace.wait_for_condition("Ready", "False", "ReconcileFailed")

    assert condition["message"] == (
        f"Deployment {PREDICTOR}: the cluster has no image volumes, and leaves out kserve-oci-model; write "
        "oci+modelcar:// (or ociModelMode of storageInitializer), or turn on Kubernetes' feature gate ImageVolume"
    )
    assert namespace.find("deployment", PREDICTOR) is None


def test_a_cluster_with_image_volumes_accepts_them(assets: Path) -> None:
    """As Kubernetes 1.35 is by default."""
    service = a_service(model={"storageUri": "oci+native://registry.example/bert:1"})
    deployment = the_children(service)["Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    with running(assets, "--feature-gates=ImageVolume=true") as server:
        namespace = Namespace(server, deployment["metadata"]["namespace"])
        server.create_namespace(namespace.name)
        namespace.kubectl("label", "namespace", namespace.name, "pod-security.kubernetes.io/enforce=restricted")

        stored = server.apply(namespace.name, deployment)["spec"]["template"]["spec"]
        created = create_pod(server, namespace, {**pod, "containers": [restricted(pod["containers"][0])]})

    (volume,) = stored["volumes"]
    assert volume == {
        "name": "kserve-oci-model",
        "image": {"reference": "registry.example/bert:1", "pullPolicy": "IfNotPresent"},
    }
    assert (
        stored["containers"][0]["volumeMounts"]
        == created["spec"]["containers"][0]["volumeMounts"]
        == [{"name": "kserve-oci-model", "mountPath": "/mnt/models", "subPath": "models", "readOnly": True}]
    )
    assert created["spec"]["volumes"] == [volume]


def restricted(server: dict[str, Any]) -> dict[str, Any]:
    """The container of the builder's runtime, as the shipped runtimes have theirs."""
    context = {"runAsNonRoot": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {**server, "securityContext": context}
