"""The manifests of a release, installed on an empty cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.release.build import write_manifests
from isvc.api_server import connect
from isvc.source.errors import NotInstalled
from isvc.source.source import cluster_source
from tests.support.apiserver import ApiServer, Refused, install_crds, running
from tests.support.doc_shell import DocShell
from tests.support.namespace import Namespace
from tests.support.source_tree import ROOT

# As on GKE: pods of these priorities need a quota that allows them.
LIMITED = """
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
  - name: ResourceQuota
    configuration:
      apiVersion: apiserver.config.k8s.io/v1
      kind: ResourceQuotaConfiguration
      limitedResources:
        - resource: pods
          matchScopes:
            - {scopeName: PriorityClass, operator: In, values: [system-node-critical, system-cluster-critical]}
"""
OPTIONAL = ROOT / "manifests" / "runtimes-kserve"
ENVIRONMENT = {**os.environ, "REGISTRY": "registry.example.com/isvc", "TAG": "7"}


@pytest.fixture
def empty(assets: Path) -> Iterator[ApiServer]:
    with running(assets) as server:
        yield server


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    write_manifests(ROOT, tmp_path, ENVIRONMENT)
    return tmp_path


async def test_a_cluster_is_told_to_be_empty_until_kubectl_installs_the_crds_and_then_the_rest(
    dist: Path, empty: ApiServer
) -> None:
    async with connect(str(empty.kubeconfig)) as api:
        with pytest.raises(NotInstalled, match="install the operator"):
            async with cluster_source(api, ("default",)):
                pass

    empty.kubectl("apply", "--server-side", f"--filename={dist / 'install-crds.yaml'}")
    empty.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
    empty.kubectl("apply", "--server-side", f"--filename={dist / 'install.yaml'}")

    operator = empty.get("deployment", "isvc-operator", "--namespace=isvc-system")
    runtimes = empty.get("clusterservingruntimes")
    empty.kubectl("apply", "--server-side", f"--filename={dist / 'runtimes-kserve.yaml'}")
    names = {item["metadata"]["name"] for item in empty.get("clusterservingruntimes")["items"]}

    containers = [
        *operator["spec"]["template"]["spec"]["containers"],
        *(container for item in runtimes["items"] for container in item["spec"]["containers"]),
    ]
    assert {container["image"] for container in containers} == {
        f"registry.example.com/isvc/{name}:7" for name in ("operator", "mar", "onnx", "torchserve")
    }
    assert names == {"isvc-mar", "isvc-onnx", "kserve-torchserve", *(path.stem for path in OPTIONAL.glob("*-*.yaml"))}


def test_what_make_deploy_installs_is_removed_as_the_page_says(empty: ApiServer) -> None:
    deployed = subprocess.check_output(["bash", "tests/cluster/render", "local"], cwd=ROOT, text=True)
    install_crds(empty)
    empty.kubectl("apply", "--server-side", "--filename=-", stdin=deployed)
    path = os.pathsep.join([str(empty.assets), os.environ["PATH"]])
    shell = DocShell(ROOT, {"KUBECONFIG": str(empty.kubeconfig), "PATH": path})

    # Nobody here empties the namespace that is deleted.
    said = shell.swapping({"kubectl delete": "kubectl delete --wait=false"}).run("docs/uninstall.md: bash")

    empty.kubectl("wait", "--for=delete", "--timeout=240s", f"--filename={ROOT / 'crds'}")
    assert empty.get("clusterrole", "--selector=app.kubernetes.io/part-of=isvc-operator")["items"] == []
    assert 'namespace "isvc-system" deleted' in said


def test_two_replicas_are_admitted_where_critical_pods_need_a_quota(dist: Path, assets: Path, tmp_path: Path) -> None:
    (tmp_path / "admission.yaml").write_text(LIMITED)
    with running(assets, f"--admission-control-config-file={tmp_path / 'admission.yaml'}") as server:
        server.kubectl("apply", "--server-side", f"--filename={dist / 'install-crds.yaml'}")
        server.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
        server.kubectl("apply", "--server-side", f"--filename={dist / 'install-ha.yaml'}")
        template = Namespace(server, "isvc-system").wait_for("deployment", "isvc-operator")["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "isvc-operator-0"}}

        with pytest.raises(Refused, match="insufficient quota to match these scopes"):
            server.apply("default", pod)
        assert server.apply("isvc-system", pod)["spec"]["priorityClassName"] == "system-cluster-critical"
