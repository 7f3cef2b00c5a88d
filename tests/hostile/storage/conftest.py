"""What the tests in this folder share: the command, folders of others, a small disk."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.storage.conftest import Initialize, initializer
from tests.support.cache_pods import write_files
from tests.support.model_folder import read_tree


@pytest.fixture
def initialize(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Initialize:
    return initializer(tmp_path, capsys)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A folder that nothing may be written to, or taken from."""
    folder = tmp_path / "victim"
    write_files(folder, {"precious": b"precious", "arriving/precious": b"precious"})
    before = read_tree(folder)
    yield folder
    assert read_tree(folder) == before


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that all can write to, as many volumes are."""
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)
