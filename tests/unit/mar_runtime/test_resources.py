"""What a container has: its processors by affinity and limit, its GPUs by their devices, its free memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from mar_runtime import resources


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(resources, "_GROUPS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=5000))
    return tmp_path


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{content}\n")


@pytest.mark.parametrize(
    ("files", "processors"),
    [
        ({}, 4),
        ({"cpu.max": "max 100000"}, 4),
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "900000 100000"}, 4),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ({"cpu/cpu.cfs_quota_us": "150000", "cpu/cpu.cfs_period_us": "100000"}, 2),
    ],
)
def test_processors_are_those_of_the_affinity_or_fewer_by_the_limit(
    groups: Path, files: Mapping[str, str], processors: int
) -> None:
    write(groups, files)

    assert resources.processors() == processors


@pytest.mark.parametrize(("wanted", "found"), [(None, 2), (1, 1), (8, 2), (0, 0)])
def test_gpus_are_those_there_or_fewer_if_so_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: int | None, found: int
) -> None:
    for device in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / device).touch()
    monkeypatch.setattr(resources, "_DEVICES", tmp_path)

    assert resources.gpus(wanted) == found


@pytest.mark.parametrize(
    ("limit", "free"), [("max", 5000), ("3000", 3000 - 800 + 200), ("700", 100), ("500", 0), ("9000", 5000)]
)
def test_free_memory_is_the_machines_or_less_by_the_limit(groups: Path, limit: str, free: int) -> None:
    write(groups, {"memory.max": limit, "memory.current": "800", "memory.stat": "anon 600\ninactive_file 200"})

    assert resources.free_memory() == free


@pytest.mark.parametrize(("limit", "free"), [("3000", 3000 - 800 + 200), ("9223372036854771712", 5000)])
def test_free_memory_is_less_by_the_limit_of_an_older_node_too(groups: Path, limit: str, free: int) -> None:
    used = {"memory/memory.usage_in_bytes": "800", "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 200"}
    write(groups, {"memory/memory.limit_in_bytes": limit, **used})

    assert resources.free_memory() == free


def test_free_memory_is_the_machines_where_there_are_no_groups(groups: Path) -> None:
    assert resources.free_memory() == 5000
