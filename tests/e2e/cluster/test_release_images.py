"""Images as `make release ARGS=--images` builds them."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.source_tree import copy_of_the_tree

NAME = "storage-initializer"
ENVIRONMENT = {"REGISTRY": "localhost/isvc-operator-test", "TAG": "release", "SOURCE_DATE_EPOCH": "1800000000"}
HASH_BASED = 0b11  # flags of a .pyc, PEP 552


def build(source: Path, out: Path) -> Path:
    out.mkdir()
    command = ["bash", "hack/release/images", str(out), NAME]
    subprocess.run(command, cwd=copy_of_the_tree(source), env={**os.environ, **ENVIRONMENT}, check=True)
    return out / f"{NAME}.tar"


def bytecode(archive: Path, folder: Path) -> Iterator[bytes]:
    """Yield the head of every .pyc below /opt in an OCI archive."""
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")

    def blob(descriptor: dict[str, str]) -> Path:
        return folder / "blobs" / descriptor["digest"].replace(":", "/")

    (entry,) = json.loads((folder / "index.json").read_text())["manifests"]
    for layer in json.loads(blob(entry).read_text())["layers"]:
        with tarfile.open(blob(layer)) as files:
            for member in files:
                if member.name.startswith("opt/") and member.name.endswith(".pyc"):
                    content = files.extractfile(member)
                    assert content is not None
                    yield content.read(16)


def test_an_image_built_twice_has_the_same_bytes_and_bytecode_that_python_accepts(tmp_path: Path) -> None:
    first, second = (build(tmp_path / f"{name}-source", tmp_path / name) for name in ("first", "second"))

    assert first.read_bytes() == second.read_bytes()
    assert {head[4] for head in bytecode(first, tmp_path / "layout")} == {HASH_BASED}
