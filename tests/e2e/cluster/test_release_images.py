"""Images as `make release ARGS=--images` builds them."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.source_tree import copy_of_the_tree

NAME = "storage-initializer"
ENVIRONMENT = {"REGISTRY": "localhost/isvc-operator-test", "TAG": "release"}
HASH_BASED = 0b11  # flags of a .pyc, PEP 552
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image."""
    return build(tmp_path_factory.mktemp("first"))


def build(folder: Path, time: int = 1_800_000_000, change: Callable[[Path], object] = lambda _: None) -> Path:
    """The image's archive, of this tree as of `time`, after a change."""
    source, out = copy_of_the_tree(folder / "source"), folder / "out"
    change(source)
    out.mkdir()
    command = ["bash", "hack/release/images", str(out), NAME]
    environment = {**os.environ, **ENVIRONMENT, "SOURCE_DATE_EPOCH": str(time)}
    subprocess.run(command, cwd=source, env=environment, check=True)
    return out / f"{NAME}.tar"


def layers(archive: Path, folder: Path) -> dict[Path, int]:
    """Unpack an OCI archive; return the files of its layers with their sizes."""
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")

    def blob(descriptor: dict[str, str]) -> Path:
        return folder / "blobs" / descriptor["digest"].replace(":", "/")

    (entry,) = json.loads((folder / "index.json").read_text())["manifests"]
    return {blob(layer): layer["size"] for layer in json.loads(blob(entry).read_text())["layers"]}


def bytecode(layers: Iterable[Path]) -> Iterator[bytes]:
    """Yield the head of every .pyc below /opt."""
    for layer in layers:
        with tarfile.open(layer) as files:
            for member in files:
                if member.name.startswith("opt/") and member.name.endswith(".pyc"):
                    content = files.extractfile(member)
                    assert content is not None
                    yield content.read(16)


def test_an_image_built_twice_has_the_same_bytes_and_bytecode_that_python_accepts(first: Path, tmp_path: Path) -> None:
    assert build(tmp_path).read_bytes() == first.read_bytes()
    assert {head[4] for head in bytecode(layers(first, tmp_path / "layout"))} == {HASH_BASED}


def test_an_upgrade_pulls_the_layers_of_our_own_files_alone(first: Path, tmp_path: Path) -> None:
    def change(source: Path) -> None:
        for file in ("storage_initializer/cli.py", "pyproject.toml"):
            (source / file).write_text((source / file).read_text() + "# changed\n")

    second = build(tmp_path, 1_900_000_000, change)

    before = {layer.name for layer in layers(first, tmp_path / "first")}
    pulled = [size for layer, size in layers(second, tmp_path / "second").items() if layer.name not in before]
    assert 0 < sum(pulled) < MEGABYTE
