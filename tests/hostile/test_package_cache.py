"""The packages of a node, shared by servers that start together, are killed, or find a folder that is of no use."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.package_servers import MODULES, Index, make_large_wheel, package_index, start_server

EVERYTHING = {"__init__.py", *(f"m{number}.py" for number in range(MODULES))}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    make_large_wheel(tmp_path / "index", "large")
    with package_index(tmp_path / "index") as served:
        yield served


@pytest.fixture
def requirements(tmp_path: Path, index: Index) -> Path:
    return asking_for(tmp_path, index, "large")


def asking_for(folder: Path, index: Index, *packages: str) -> Path:
    file = folder / "-".join(packages) / "requirements.txt"
    file.parent.mkdir()
    file.write_text("\n".join((f"--index-url {index.url}", *packages)))
    return file


def modules_in(packages: Path) -> set[str]:
    return {path.name for path in (packages / "large").glob("*.py")}


def sets_in(cache: Path) -> list[Path]:
    return [path for path in cache.glob("*") if path.is_dir() and len(path.name) == 64]


def test_servers_that_start_together_download_once(tmp_path: Path, requirements: Path, index: Index) -> None:
    servers = [start_server(requirements, tmp_path / f"work-{number}", tmp_path / "cache") for number in range(5)]
    found = {server.installed() for server in servers}

    assert found == {*sets_in(tmp_path / "cache")}
    assert [modules_in(one) for one in found] == [EVERYTHING]
    assert index.downloads == ["/large/large-1-py3-none-any.whl"]


def test_what_a_killed_server_leaves_is_never_used_half(tmp_path: Path, requirements: Path) -> None:
    cache = tmp_path / "cache"
    began = time.monotonic()
    start_server(requirements, tmp_path / "first", tmp_path / "other-cache").installed()
    whole = time.monotonic() - began
    for tenth in range(10):
        server = start_server(requirements, tmp_path / f"work-{tenth}", cache)
        time.sleep(whole * (tenth + 1) / 10)
        server.kill()
        assert [modules_in(one) for one in sets_in(cache)] in ([], [EVERYTHING])

    assert modules_in(start_server(requirements, tmp_path / "last", cache).installed()) == EVERYTHING


def test_a_full_disk_is_done_without(tmp_path: Path, requirements: Path) -> None:
    disk = tmp_path / "small"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    try:
        server = start_server(requirements, tmp_path / "work", disk / "cache")
        installed = server.installed()
    finally:
        subprocess.run(["umount", disk], check=True)

    assert (installed, modules_in(installed)) == (tmp_path / "work/packages", EVERYTHING)


def test_a_folder_that_is_only_read_is_done_without(tmp_path: Path, requirements: Path) -> None:
    disk = tmp_path / "read-only"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", disk], check=True)
    try:
        installed = start_server(requirements, tmp_path / "work", disk).installed()
    finally:
        subprocess.run(["umount", disk], check=True)

    assert (installed, modules_in(installed)) == (tmp_path / "work/packages", EVERYTHING)


def test_a_folder_of_another_user_is_not_touched(tmp_path: Path, requirements: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    os.chown(cache, 1234, 1234)

    installed = start_server(requirements, tmp_path / "work", cache).installed()

    assert (installed, modules_in(installed)) == (tmp_path / "work/packages", EVERYTHING)
    assert [*cache.iterdir()] == []


def test_without_the_index_what_was_downloaded_is_taken(tmp_path: Path) -> None:
    make_large_wheel(tmp_path / "index", "large")
    with package_index(tmp_path / "index") as index:
        requirements = asking_for(tmp_path, index, "large")
        first = start_server(requirements, tmp_path / "work-1", tmp_path / "cache").installed()

    second = start_server(requirements, tmp_path / "work-2", tmp_path / "cache")
    unknown = start_server(asking_for(tmp_path, index, "other"), tmp_path / "work-3", tmp_path / "cache")

    assert second.installed() == first
    assert "Model m: requirements.txt, line 2, could not be installed: " in unknown.log()
