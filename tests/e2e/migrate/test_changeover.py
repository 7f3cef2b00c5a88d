"""`isvc migrate` on the real API server, with the real controllers of Deployments and the real operator."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.migrate.conftest import Cluster, pods_of
from tests.support.build_cache import ROOT
from tests.support.doc_shell import DocShell, find
from tests.support.namespace import Namespace
from tests.support.waiting import eventually

ADMISSION = "admissionregistration.k8s.io/v1"
HOOK, OTHER_HOOK = "inferenceservice.serving.kserve.io", "llminferenceservice.serving.kserve.io"
RENDERED, HANDOVER = "isvc-operator.io/rendered", "isvc-operator.io/handover"
PAGE = "docs/migrate-from-kserve.md: "
NAMES = ("one-predictor", "two-predictor")


def test_services_change_over_and_back(
    cluster: Cluster, namespace: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = webhook(cluster, HOOK)
    old = {pod["metadata"]["name"] for pod in pods_of(namespace)}

    assert cluster.migrate("apply", f"--manifests={cluster.manifests}", "--timeout=60") == 0

    for name, size in zip(NAMES, (1, 2), strict=True):
        deployment = namespace.wait_for("deployment", name)
        assert marks(deployment) == {"rendered": True, "handover": False, "paused": None, "minReadySeconds": None}
        assert deployment["spec"]["replicas"] == size
        assert deployment["status"]["readyReplicas"] == size
        assert namespace.wait_for("service", name)["spec"]["selector"] == {"app": f"isvc.{name}"}
    assert not old & {pod["metadata"]["name"] for pod in pods_of(namespace)}
    assert (webhook(cluster, HOOK), webhook(cluster, OTHER_HOOK) is None) == (None, False)
    assert size_of(cluster, "kserve-controller-manager") == 0
    assert namespace.condition("Ready", "one")["status"] == namespace.condition("Ready", "two")["status"] == "True"
    said = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert [re.sub(r"\d+ s$", "… s", line) for line in sorted(said[2:4])] == [
        f"{namespace.name}/one is changed over, after … s",
        f"{namespace.name}/two is changed over, after … s",
    ]
    assert [*said[:2], *said[4:]] == [
        "KServe's controllers are paused; its webhooks still serve",
        "the operator watches all namespaces",
        "KServe's manager is scaled to zero, and its 1 webhook configurations are kept",
    ]

    upgrade = cluster.manifests.read_text().replace("/operator:", "/operator:next-")
    assert "serverside-applied" in cluster.server.kubectl(
        "apply", "--server-side", "--dry-run=server", "--filename=-", stdin=upgrade
    )

    assert cluster.migrate(*of_page(cluster, "isvc migrate apply"), "--timeout=60") == 0
    assert cluster.migrate(*of_page(cluster, "isvc migrate back"), "--timeout=60") == 0

    assert webhook(cluster, HOOK) == before
    assert [size_of(cluster, name) for name in ("kserve-controller-manager", "isvc-operator")] == [1, 0]
    assert cluster.find("serving.kserve.io/v1alpha1", "clusterservingruntimes", "isvc-mar") is None
    for name in NAMES:
        deployment = namespace.wait_for("deployment", name)
        assert marks(deployment) == {"rendered": False, "handover": False, "paused": None, "minReadySeconds": None}
        assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "kserve/server:v0.20.0"


def test_a_service_whose_new_pods_do_not_start_keeps_the_old_ones_and_the_next_run_goes_on(
    cluster: Cluster, namespace: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    old = {pod["metadata"]["name"] for pod in pods_of(namespace)}
    cluster.node.held.set()

    try:
        scope = (f"--namespace={namespace.name}", f"--manifests={cluster.manifests}")
        assert cluster.migrate("apply", *scope, "--timeout=10", "--parallel=1") == 1
        error = capsys.readouterr().err
        assert old <= {pod["metadata"]["name"] for pod in pods_of(namespace)}
        assert marks(namespace.wait_for("deployment", NAMES[1]))["paused"] is True
        assert namespace.condition("Ready", "one")["status"] == "True"
    finally:
        cluster.node.held.clear()

    assert error.startswith(
        f"isvc: {namespace.name}/one: after 10 s: Deployment one-predictor: the new pods are not ready. Its old pods "
        "still serve. "
    )
    assert error.endswith("Correct the cause and run this command again, or go back with: isvc migrate back\n")
    assert cluster.migrate("apply", *scope, "--timeout=60") == 0
    assert not old & {pod["metadata"]["name"] for pod in pods_of(namespace)}
    assert cluster.migrate("back", "--timeout=60") == 0
    eventually(lambda: len(pods_of(namespace)) == 3, "as many pods as before")


def test_nothing_changes_when_the_plan_has_something_blocking(
    cluster: Cluster, namespace: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace.kubectl("patch", "inferenceservice", "one", "--subresource=status", "--type=merge",
                      '--patch={"status": {"deploymentMode": "Serverless"}}')  # fmt: skip
    before = [namespace.wait_for("deployment", name)["metadata"]["resourceVersion"] for name in NAMES]

    scope = (f"--namespace={namespace.name}", f"--manifests={cluster.manifests}")
    assert (cluster.migrate("plan", *scope), cluster.migrate("apply", *scope)) == (2, 2)

    said = capsys.readouterr().out
    assert (
        said.count(f"{namespace.name}/one\n  blocking deployment mode Serverless: its pods cannot be taken over") == 2
    )
    assert [namespace.wait_for("deployment", name)["metadata"]["resourceVersion"] for name in NAMES] == before


def test_the_page_plans_with_what_kubectl_renders(cluster: Cluster, namespace: Namespace, tmp_path: Path) -> None:
    """Only its own services are looked at: those of other tests may have what is blocking."""
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    # Warnings are exit code 3.
    own = f"--namespace {namespace.name} || test $? = 3"
    here = {"plan --manifests operator.yaml": f"plan --manifests operator.yaml {own}"}

    said = DocShell(tmp_path, swaps=here).of_cluster(cluster.server, namespace.name).run(f"{PAGE}kubectl kustomize")

    assert f"{namespace.name}/one" in said
    assert " 0 blocking" in said


def of_page(cluster: Cluster, command: str) -> list[str]:
    """The words of a command of docs/migrate-from-kserve.md, behind `isvc migrate`."""
    words = shlex.split(find(f"{PAGE}{command}").text)[2:]
    return [word.replace("operator.yaml", str(cluster.manifests)) for word in words]


def webhook(cluster: Cluster, name: str) -> dict[str, Any] | None:
    """The configuration without what the API server sets."""
    found = cluster.find(ADMISSION, "mutatingwebhookconfigurations", name)
    return found and {"labels": found["metadata"]["labels"], "webhooks": found["webhooks"]}


def size_of(cluster: Cluster, name: str) -> int:
    found = cluster.find("apps/v1", "deployments", name)
    assert found is not None
    return int(found["spec"]["replicas"])


def marks(deployment: dict[str, Any]) -> dict[str, Any]:
    annotations, spec = deployment["metadata"].get("annotations", {}), deployment["spec"]
    return {
        "rendered": RENDERED in annotations,
        "handover": HANDOVER in annotations,
        "paused": spec.get("paused"),
        "minReadySeconds": spec.get("minReadySeconds"),
    }
