"""`isvc inspect`'s half of the storage-initializer, on real stores: what it says, and that nothing is copied."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import pytest

from model_archive.manifest import MANIFEST
from storage_initializer.inspection import main
from tests.e2e.stores.conftest import Store
from tests.support.model_folder import manifest, read_tree, write_files
from tests.support.object_stores import nginx

Captured = pytest.CaptureFixture[str]
CONFIG = b"model_store=model-store\nload_models=bert.mar\n"


@pytest.fixture
def archive(tmp_path: Path) -> bytes:
    """Of several blocks, so that it is read in parts."""
    with ZipFile(tmp_path / "bert.mar", "w", ZIP_STORED) as packed:
        packed.writestr("bert.pt", random.Random(0).randbytes(3 << 20))
        packed.writestr("handler.py", b"")
        packed.writestr("requirements.txt", b"six\n")
        fields = {"modelName": "bert", "serializedFile": "bert.pt", "requirementsFile": "requirements.txt"}
        packed.writestr(MANIFEST, json.dumps(manifest(**fields)))
    return (tmp_path / "bert.mar").read_bytes()


def inspected(capsys: Captured, uri: str, environment: dict[str, str]) -> dict[str, Any]:
    code = main([uri], environment)
    printed = capsys.readouterr()
    assert (code, printed.err) == (0, "")
    document: dict[str, Any] = json.loads(printed.out)
    return document


def test_a_bucket_is_what_a_folder_is(store: Store, archive: bytes, tmp_path: Path, capsys: Captured) -> None:
    files = {"config/config.properties": CONFIG, "model-store/bert.mar": archive}
    write_files(tmp_path / "volume", files)

    there = inspected(capsys, store.fill(files), store.environment())
    here = inspected(capsys, str(tmp_path / "volume"), {})

    assert there["source"].startswith(f"{store.scheme}://")
    assert {**there, "source": ""} == {**here, "source": ""}
    assert [(one["model"], one["requirements"], one["served"]) for one in there["archives"]] == [
        ("bert", ["six"], True)
    ]
    assert there["problems"] == []


@pytest.mark.parametrize("folder", ["", "slow/", "whole/"])
def test_a_file_of_a_web_server_is_looked_into_also_where_it_comes_as_a_whole(
    web: nginx.HttpServer,
    archive: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    folder: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    web.put("inspected/bert.mar", archive)
    before = read_tree(tmp_path)

    (found,) = inspected(capsys, f"{web.url}/{folder}inspected/bert.mar", {})["archives"]

    assert (found["model"], found["files"], found["problems"]) == ("bert", 4, [])
    assert read_tree(tmp_path) == before
