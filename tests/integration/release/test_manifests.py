"""The manifests of a release, installed on an empty cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hack.release.build import write_manifests
from tests.support.apiserver import running
from tests.support.source_tree import ROOT

OPTIONAL = ROOT / "manifests" / "runtimes-kserve"
ENVIRONMENT = {**os.environ, "REGISTRY": "registry.example.com/isvc", "TAG": "7"}


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    write_manifests(ROOT, tmp_path, ENVIRONMENT)
    return tmp_path


def test_kubectl_installs_the_crds_and_then_the_rest(dist: Path, assets: Path) -> None:
    with running(assets) as server:
        server.kubectl("apply", "--server-side", f"--filename={dist / 'install-crds.yaml'}")
        server.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
        server.kubectl("apply", "--server-side", f"--filename={dist / 'install.yaml'}")

        operator = server.get("deployment", "isvc-operator", "--namespace=isvc-system")
        runtimes = server.get("clusterservingruntimes")
        server.kubectl("apply", "--server-side", f"--filename={dist / 'runtimes-kserve.yaml'}")
        names = {item["metadata"]["name"] for item in server.get("clusterservingruntimes")["items"]}

    containers = [
        *operator["spec"]["template"]["spec"]["containers"],
        *(container for item in runtimes["items"] for container in item["spec"]["containers"]),
    ]
    assert {container["image"] for container in containers} == {
        f"registry.example.com/isvc/{name}:7" for name in ("operator", "mar", "torchserve")
    }
    assert names == {"isvc-mar", "kserve-torchserve", *(path.stem for path in OPTIONAL.glob("*-*.yaml"))}
