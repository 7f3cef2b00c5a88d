"""What a container has: its processors by affinity and limit, its GPUs by their devices, its free memory."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from mar_runtime import resources


@pytest.fixture
def quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cpu.max"
    monkeypatch.setattr(resources, "_CPU_QUOTA", path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    return path


@pytest.mark.parametrize(
    ("content", "processors"),
    [
        (None, 4),
        ("max 100000\n", 4),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("50000 100000\n", 1),
        ("900000 100000\n", 4),
    ],
)
def test_processors_are_those_of_the_affinity_or_fewer_by_the_limit(
    quota: Path, content: str | None, processors: int
) -> None:
    if content is not None:
        quota.write_text(content)

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
    ("limit", "free"),
    [(None, 5000), ("max", 5000), ("3000", 3000 - 800 + 200), ("700", 100), ("500", 0), ("9000", 5000)],
)
def test_free_memory_is_the_machines_or_less_by_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, free: int
) -> None:
    monkeypatch.setattr(resources, "_MEMORY", tmp_path)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=5000))
    if limit is not None:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text("800\n")
    (tmp_path / "memory.stat").write_text("anon 600\ninactive_file 200\n")

    assert resources.free_memory() == free
