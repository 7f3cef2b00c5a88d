"""What there is for workers: GPUs by their devices and by what CUDA lets be seen, threads, and free memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from data_plane.model_server import container
from mar_runtime import resources


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for device in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / device).touch()
    monkeypatch.setattr(resources, "_DEVICES", tmp_path)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(("wanted", "found"), [(None, 2), (1, 1), (8, 2), (0, 0)])
def test_gpus_are_those_there_or_fewer_if_so_configured(wanted: int | None, found: int) -> None:
    assert resources.gpus(wanted, {}) == found


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("visible", "found"),
    [
        ("", 0), ("-1", 0), ("none", 0), ("NoDevFiles", 0),
        ("0", 1), ("1", 1), ("0,1", 2), (" 1 , 0 ", 2), ("2", 0), ("0,2", 1), ("0,2,1", 1), ("0,-1,1", 1), ("0,0", 0),
        ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 1), ("GPU-8932f937,GPU-1faed9f6", 2), ("GPU-a,GPU-b,GPU-c", 2),
        ("GPU-a,GPU-a", 0), ("MIG-a", 1), ("MIG-a,MIG-b", 1),
    ],
)  # fmt: skip
def test_gpus_are_no_more_than_cuda_lets_be_seen(visible: str, found: int) -> None:
    assert resources.gpus(None, {"CUDA_VISIBLE_DEVICES": visible}) == found


@pytest.mark.parametrize(
    ("variable", "threads"),
    [("2", 2), ("1", 1), (" 4 ", 4), ("4,2", 4), ("", None), ("0", None), ("-1", None), ("many", None), ("²", None)],
)
def test_threads_are_as_many_as_the_user_says_where_openmp_obeys_it(variable: str, threads: int | None) -> None:
    assert resources.threads({"OMP_NUM_THREADS": variable}) == threads
    assert resources.threads({}) is None


@pytest.mark.parametrize(("left", "free"), [(None, 5000), (2400, 2400), (8400, 5000)])
def test_free_memory_is_the_machines_or_what_the_container_has_left(
    monkeypatch: pytest.MonkeyPatch, left: int | None, free: int
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=5000))
    monkeypatch.setattr(container, "memory_left", lambda: left)

    assert resources.free_memory() == free
