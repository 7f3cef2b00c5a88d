"""Archives as they come, whole and damaged. Those made to do harm are in the tests of who unpacks them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from model_archive.archive import check_archive
from model_archive.errors import InvalidArchive
from model_archive.manifest import Manifest
from tests.support.model_folder import manifest, write_mar, write_tar

REPACK = "make it again with isvc pack"
MANIFEST = "MAR-INF/MANIFEST.json"


def refusal(path: Path) -> str:
    with pytest.raises(InvalidArchive) as raised:
        check_archive(path, "a.mar")
    return str(raised.value)


# --- what TorchServe takes ---------------------------------------------------------------------------


def test_a_whole_archive_passes(tmp_path: Path) -> None:
    check_archive(write_mar(tmp_path / "a.mar"), "a.mar")


@pytest.mark.parametrize("top", ["bert", "."])
def test_a_tar_gz_passes(tmp_path: Path, top: str) -> None:
    check_archive(write_tar(tmp_path / "a.tar.gz", top=top), "a.mar")


@pytest.mark.parametrize("top", ["", "bert"])
def test_an_unpacked_archive_passes(tmp_path: Path, top: str) -> None:
    with ZipFile(write_mar(tmp_path / "packed")) as archive:
        archive.extractall(tmp_path / "a" / top)

    check_archive(tmp_path / "a", "a.mar")


@pytest.mark.parametrize("handler", ["image_classifier", "handler.py", "handler:handle"])
def test_any_handler_passes(tmp_path: Path, handler: str) -> None:
    check_archive(write_mar(tmp_path / "a.mar", manifest(handler=handler)), "a.mar")


# --- damaged -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty (0 bytes)"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is not a zip archive (43 bytes)"),
        (b"PK\x03\x04", "is truncated: after 4 bytes the zip directory is missing"),
    ],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "a.mar").write_bytes(content)

    assert refusal(tmp_path / "a.mar") == f"a.mar {complaint}; copy it to the source again"


def test_a_damaged_manifest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mar"
    with ZipFile(path, "w") as archive:
        archive.writestr(MANIFEST, json.dumps(manifest()))
    path.write_bytes(path.read_bytes().replace(b"python", b"pythoN"))

    assert refusal(path) == f"a.mar is damaged (Bad CRC-32 for file '{MANIFEST}'); copy it to the source again"


@pytest.mark.parametrize("kept", [0, 10, 100, 200])
def test_a_truncated_tar_gz_is_refused(tmp_path: Path, kept: int) -> None:
    path = write_tar(tmp_path / "a.tar.gz")
    path.write_bytes(path.read_bytes()[:kept])

    assert refusal(path).startswith(f"a.mar is truncated or not a tar.gz ({kept} bytes: ")


def test_any_damage_is_an_archive_error_or_harmless(tmp_path: Path) -> None:
    """No byte of an archive, whatever it becomes, may end in another exception than ours."""
    path, chance, refused = tmp_path / "a.mar", random.Random(0), 0
    whole = write_mar(path).read_bytes()
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            check_archive(path, "a.mar")
        except InvalidArchive:
            refused += 1
    assert refused > 200


# --- manifests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{", f"the {MANIFEST} of a.mar is not valid JSON; {REPACK}"),
        (b"\xff\xfe", f"the {MANIFEST} of a.mar is not valid JSON; {REPACK}"),
        (b"[" * 100_000, f"the {MANIFEST} of a.mar is not valid JSON; {REPACK}"),
        (b"[]", f"the {MANIFEST} of a.mar has no model; {REPACK}"),
        (b'{"model": "bert"}', f"the {MANIFEST} of a.mar has no model; {REPACK}"),
        (b" " * (1 << 20) + b"{}", f"the {MANIFEST} of a.mar is larger than 1.0 MiB; {REPACK}"),
        (manifest(handler=None), f"the {MANIFEST} of a.mar lacks model.handler; {REPACK}"),
        (manifest(configFile=[]), f"the {MANIFEST} of a.mar has a model.configFile that is no file name; {REPACK}"),
        (manifest(handler=7), f"the {MANIFEST} of a.mar lacks model.handler; {REPACK}"),
        (
            manifest(modelName="", modelVersion=""),
            f"the {MANIFEST} of a.mar lacks model.modelName, model.modelVersion; {REPACK}",
        ),
        (
            {**manifest(), "runtime": "python2"},
            f"the {MANIFEST} of a.mar has the runtime 'python2'; use python or python3 or LSP",
        ),
    ],
)
def test_a_manifest_that_torchserve_refuses(tmp_path: Path, content: Any, complaint: str) -> None:
    assert refusal(write_mar(tmp_path / "a.mar", content)) == complaint


def test_what_a_manifest_says(tmp_path: Path) -> None:
    fields = {"requirementsFile": "requirements.txt", "configFile": "c.yaml", "modelVersion": 1.5}

    found = check_archive(write_mar(tmp_path / "a.mar", manifest(**fields)), "a.mar")

    assert found == Manifest("bert-model", "1.5", "handler.py", "requirements.txt", "c.yaml")


def test_a_manifest_needs_no_version_and_no_runtime(tmp_path: Path) -> None:
    content = manifest(modelVersion=None)
    del content["runtime"]

    assert check_archive(write_mar(tmp_path / "a.mar", content), "a.mar") == Manifest("bert-model", "1.0", "handler.py")


def test_an_archive_without_a_manifest(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "a.mar", "w") as archive:
        archive.writestr("handler.py", b"")

    assert refusal(tmp_path / "a.mar") == f"a.mar has no {MANIFEST}; {REPACK}"


def test_a_tar_gz_without_a_top_folder(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar.gz", top="bert/deep")

    assert refusal(path) == f"a.mar has no {MANIFEST} below its top folder; {REPACK}"


def test_a_folder_without_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "a/deep/deeper").mkdir(parents=True)

    assert refusal(tmp_path / "a") == f"a.mar has no {MANIFEST}; {REPACK}"
