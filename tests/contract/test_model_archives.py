"""An archive that the storage-initializer accepts is served by the runtimes, and none that it refuses; `isvc inspect`
says which of the two it is."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest

from data_plane.model_server.errors import StartError
from mar_runtime.archives.unpack import unpack
from model_archive import contents
from model_archive.errors import InvalidArchive
from storage_initializer.inspection import main as inspection
from storage_initializer.layout import check_torchserve
from tests.support.hostile_archives import LIMITS
from tests.support.model_archives import ARCHIVES, ModelArchive
from torchserve_compat.store.archives import read_store
from torchserve_compat.store.models import requested_models


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LIMITS.items():
        monkeypatch.setattr(contents, name, value)


def is_copied(volume: Path) -> bool:
    """Whether the storage-initializer's check of the layout passes."""
    try:
        check_torchserve(volume, PurePosixPath("/mnt/models"))
    except InvalidArchive:
        return False
    return True


def is_served(store: Path, file: str, work: Path) -> bool:
    """Whether the model store takes it, as for both runtimes, and ours unpacks it."""
    try:
        (model,) = requested_models({"load_models": file}, read_store(store), str(store))
        unpack(store / model.archive, work)
    except StartError:
        return False
    return True


@pytest.mark.parametrize("archive", [pytest.param(one, id=f"{one.title} ({one.file})") for one in ARCHIVES])
def test_both_sides_say_the_same(tmp_path: Path, archive: ModelArchive) -> None:
    store = tmp_path / "model-store"
    store.mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.properties").write_text(f"load_models={archive.file}\n")
    archive.write(store / archive.file)

    told = (is_copied(tmp_path), is_served(store, archive.file, tmp_path / "work"))

    assert told == (archive.is_served, archive.is_served)


@pytest.mark.parametrize("archive", [pytest.param(one, id=f"{one.title} ({one.file})") for one in ARCHIVES])
def test_inspect_says_the_same(tmp_path: Path, archive: ModelArchive, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside that, it says that most of these lack their handler, which the runtimes find out when they load it."""
    store = tmp_path / "model-store"
    store.mkdir()
    archive.write(store / archive.file)

    assert inspection([str(tmp_path)], {}) == 0

    (found,) = json.loads(capsys.readouterr().out)["archives"]
    refusals = [problem for problem in found["problems"] if " is neither in it nor one of " not in problem]
    assert (len(refusals), "model" in found) == ((0, True) if archive.is_served else (1, False))
