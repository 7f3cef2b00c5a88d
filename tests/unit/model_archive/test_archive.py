"""Archives as they come, whole and damaged. Those made to do harm are in the tests of who unpacks them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from model_archive.archive import check_archive, open_archive
from model_archive.errors import InvalidArchive
from model_archive.manifest import Manifest
from tests.support.model_folder import manifest, write_mar

REPACK = "make it again with isvc pack"
MANIFEST = "MAR-INF/MANIFEST.json"


def refusal(path: Path) -> str:
    with pytest.raises(InvalidArchive) as raised:
        check_archive(path, "a.mar")
    return str(raised.value)


@pytest.mark.parametrize(
    ("written", "name"),
    [("wörter.txt".encode(), "wörter.txt"), ("wörter.txt".encode("cp437"), "wörter.txt")],
    ids=["zip on Linux", "zip on Windows"],
)
def test_a_name_without_the_flag_for_utf_8_is_read(tmp_path: Path, written: bytes, name: str) -> None:
    placeholder = "_" * len(written)
    path = write_mar(tmp_path / "a.mar", files={placeholder: b"", "handler.py": b""})
    path.write_bytes(path.read_bytes().replace(placeholder.encode(), written))

    with open_archive(path, "a.mar") as members:
        assert name in {str(member.path) for member in members}


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
        (manifest(configFile=[]), f"the {MANIFEST} of a.mar has a model.configFile that is not a file name; {REPACK}"),
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
