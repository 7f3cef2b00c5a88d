"""What a model store holds, as its archives say it themselves."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.model_folder import manifest
from torchserve_compat.store.archives import Archive, read_store


def write_unpacked(folder: Path, name: str) -> None:
    (folder / "MAR-INF").mkdir(parents=True)
    (folder / "MAR-INF/MANIFEST.json").write_text(json.dumps(manifest(modelName=name)))


def test_an_unpacked_archive_may_be_in_a_lone_folder(tmp_path: Path) -> None:
    write_unpacked(tmp_path / "plain", "a")
    write_unpacked(tmp_path / "wrapped/inner", "b")
    write_unpacked(tmp_path / "several/one", "c")
    write_unpacked(tmp_path / "several/two", "d")
    (tmp_path / "lost+found").mkdir()

    assert read_store(tmp_path) == {
        "plain": Archive("plain", "a", handler="handler.py"),
        "wrapped": Archive("wrapped", "b", handler="handler.py"),
    }
