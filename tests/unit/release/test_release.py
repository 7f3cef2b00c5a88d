"""What `make release` refuses."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from hack.release.__main__ import Refused, main, require_equal
from hack.release.build import IMAGES
from hack.release.version import ROOT


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    folders = tmp_path / "first", tmp_path / "second"
    for folder in folders:
        folder.mkdir()
        (folder / "wheel").write_bytes(b"same")
    return folders


def test_a_tree_with_changes_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / "forgotten.py").write_text("")

    assert main(tmp_path, {}, []) == 1
    assert "?? forgotten.py" in capsys.readouterr().err
    assert not (tmp_path / "dist").exists()


def test_a_file_that_differs_is_named(folders: tuple[Path, Path]) -> None:
    (folders[1] / "wheel").write_bytes(b"SAME")

    with pytest.raises(Refused, match=r"differ in wheel$"):
        require_equal(*folders)


def shipped(folder: str) -> list[str]:
    return sorted(path.name for path in (ROOT / "manifests" / folder).glob("*-*.yaml"))


@pytest.mark.parametrize("folder", ["runtimes", "runtimes-kserve"])
def test_every_shipped_runtime_is_in_the_kustomization_of_its_folder(folder: str) -> None:
    written = yaml.safe_load((ROOT / "manifests" / folder / "kustomization.yaml").read_text())

    assert written["resources"] == shipped(folder)


def test_the_chart_installs_every_runtime_of_ours() -> None:
    values = yaml.safe_load((ROOT / "manifests/charts/isvc-operator/values.yaml").read_text())

    assert [f"{name}.yaml" for name in values["runtimes"]] == shipped("runtimes")


def test_every_image_of_a_release_is_one_that_make_images_builds() -> None:
    script = (ROOT / "tests/cluster/images").read_text()

    built = " ".join(re.findall(r'^(?:bases|images)="([a-z -]+)"', script, re.MULTILINE)).split()
    assert set(IMAGES) - set(built) == set()


def test_every_image_that_manifests_name_is_in_the_release_and_may_have_a_tag_in_the_chart() -> None:
    manifests = "".join(path.read_text() for path in (ROOT / "manifests").rglob("*.yaml"))
    schema = json.loads((ROOT / "manifests/charts/isvc-operator/values.schema.json").read_text())

    named = set(re.findall(r"localhost/isvc-operator/([a-z-]+):", manifests))
    assert named - set(IMAGES) == set()
    assert named == set(schema["properties"]["image"]["properties"]["tags"]["propertyNames"]["enum"])
