"""Blocks of the docs that need nothing but an API server: kubectl's commands for services and their surroundings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.apiserver import ApiServer
from tests.support.doc_shell import DocShell
from tests.support.namespace import Namespace, story_service

pytestmark = pytest.mark.process
HOME = "isvc-system"
KSERVES = {"metadata": {"finalizers": ["inferenceservice.finalizers"]}}


@pytest.fixture
def shell(apiserver: ApiServer, namespace: str, tmp_path: Path) -> DocShell:
    """In a checkout, for a namespace with the sample's service and what a cluster's controllers make."""
    team = Namespace(apiserver, namespace)
    team.apply(story_service(), {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    (tmp_path / "key.json").write_text("{}")
    shell = DocShell.beside_examples(tmp_path).of_cluster(apiserver, namespace)
    return shell.swapping({"team-a": namespace, "--all-namespaces": f"--namespace={namespace}"})


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("docs/first-model.md: kubectl annotate", "deleted"),
        ("docs/install.md: kubectl create rolebinding alice", "isvc-operator-cluster-view created"),
        ("docs/install.md: kubectl create rolebinding isvc", "isvc-operator-credentials created"),
        ("docs/storage.md: kubectl create secret generic google", "serviceaccount/default patched"),
        ("docs/storage.md: kubectl create secret generic azure", "serviceaccount/default patched"),
        ("docs/storage.md: kubectl create secret generic hub", "serviceaccount/default patched"),
        ("docs/uninstall.md: kubectl delete isvc", '"torchserve" deleted'),
        ("docs/validate.md: kubectl get isvc", ""),
    ],
)
def test_a_block_does_what_it_says(shell: DocShell, block: str, said: str) -> None:
    assert said in shell.run(block)


def test_the_finalizer_of_kserve_is_removed(shell: DocShell, apiserver: ApiServer, namespace: str) -> None:
    service = Namespace(apiserver, namespace)
    service.kubectl("patch", "isvc", "torchserve", "--type=merge", f"--patch={json.dumps(KSERVES)}")
    service.kubectl("delete", "isvc", "torchserve", "--wait=false")

    shell.swapping({"isvc NAME": "isvc torchserve"}).run("docs/uninstall.md: kubectl patch isvc")

    assert service.find("inferenceservice", "torchserve") is None


def test_runtimes_of_kserve_are_installed(shell: DocShell, apiserver: ApiServer) -> None:
    try:
        said = shell.run("docs/choose-a-runtime.md: kubectl apply")
    finally:  # other tests have their own
        apiserver.kubectl("delete", f"--kustomize={shell.folder / 'manifests/runtimes-kserve'}", "--ignore-not-found")

    assert "kserve-huggingfaceserver serverside-applied" in said


def test_what_is_beside_the_operator_is_found_and_applied(shell: DocShell, apiserver: ApiServer) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "isvc-operator"}}
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    apiserver.kubectl("apply", "--filename=-", stdin=json.dumps(home))
    apiserver.apply(HOME, {**lease, "spec": {"holderIdentity": "isvc-operator-1"}})
    released = shell.folder / "dashboard.yaml"
    released.write_text(apiserver.kubectl("kustomize", str(shell.folder / "manifests/dashboard")))
    try:
        said = shell.run("docs/operations.md: kubectl --namespace", "docs/dashboard.md: kubectl apply")
    finally:
        apiserver.kubectl("delete", f"--filename={released}", "--ignore-not-found")
        apiserver.kubectl("delete", "lease", "isvc-operator", f"--namespace={HOME}")

    assert "isvc-operator-1" in said
    assert "deployment.apps/isvc-dashboard serverside-applied" in said


def test_nothing_is_applied_for_a_prometheus_operator_that_is_not_there(shell: DocShell, apiserver: ApiServer) -> None:
    with pytest.raises(AssertionError, match=r'"prometheusrules\.monitoring\.coreos\.com" not found'):
        shell.run("docs/operations.md: kubectl get crd podmonitors")

    part = "--selector=app.kubernetes.io/part-of=isvc-operator"
    assert apiserver.get("configmaps", part, "--all-namespaces")["items"] == []


@pytest.mark.parametrize(
    ("program", "fields", "said"),
    [
        ("-r", {"type": "PodsOutdated"}, "{}/torchserve"),
        ("'[", {"reason": "RolloutQueued"}, "1"),
    ],
)  # fmt: skip
def test_conditions_are_counted(
    shell: DocShell, apiserver: ApiServer, namespace: str, program: str, fields: dict[str, str], said: str
) -> None:
    condition = {"type": "PredictorReady", "status": "False", **fields}
    Namespace(apiserver, namespace).patch_status("inferenceservice", "torchserve", {"conditions": [condition]})

    assert shell.run(
        f"docs/operations.md: kubectl get isvc --all-namespaces -o json | jq {program}"
    ).strip() == said.format(namespace)
