"""The kustomization of docs/gitops.md, applied to an empty cluster in the order in which Argo CD does that."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.release.build import write_manifests
from tests.integration.release.test_manifests import ENVIRONMENT
from tests.support.apiserver import ApiServer, running
from tests.support.source_tree import ROOT

PAGE = (ROOT / "docs/gitops.md").read_text()
WAVE = "argocd.argoproj.io/sync-wave"
KEPT = {"argocd.argoproj.io/sync-options": "Prune=false,Delete=false", "kustomize.toolkit.fluxcd.io/prune": "disabled"}


@pytest.fixture(scope="module")
def empty(assets: Path) -> Iterator[ApiServer]:
    with running(assets) as server:
        yield server


@pytest.fixture(scope="module")
def objects(empty: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the folder `platform` of the page has, once kustomize has rendered it."""
    folder = tmp_path_factory.mktemp("platform")
    write_manifests(ROOT, folder, ENVIRONMENT)
    (kustomization,) = re.findall(r"```yaml\n# platform/kustomization.yaml\n(.*?)```", PAGE, re.DOTALL)
    (folder / "kustomization.yaml").write_text(kustomization)
    return [*yaml.safe_load_all(empty.kubectl("kustomize", str(folder)))]


def annotations(item: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = item["metadata"].get("annotations") or {}
    return found


def test_crds_are_kept_by_both_tools(objects: list[dict[str, Any]]) -> None:
    crds = [item for item in objects if item["kind"] == "CustomResourceDefinition"]

    assert len(crds) == 4
    assert [item["metadata"]["name"] for item in crds if not KEPT.items() <= annotations(item).items()] == []


def test_wave_by_wave_everything_can_be_applied_and_then_a_service(
    empty: ApiServer, objects: list[dict[str, Any]]
) -> None:
    waves = defaultdict(list)
    for item in objects:
        waves[int(annotations(item).get(WAVE, "0"))].append(item)

    for _, items in sorted(waves.items()):
        namespaces = [item for item in items if item["kind"] == "Namespace"]  # which Argo CD applies first
        for those in (namespaces, items):
            empty.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(those or items))
        empty.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
    empty.kubectl("apply", "--server-side", f"--filename={ROOT / 'examples/bert/inferenceservice.yaml'}")

    assert {wave: {item["kind"] for item in items} for wave, items in waves.items() if wave} == {
        -1: {"CustomResourceDefinition"},
        1: {"ClusterServingRuntime"},
    }
