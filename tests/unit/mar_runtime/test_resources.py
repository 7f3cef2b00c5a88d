"""What there is for workers: GPUs by their devices, and free memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from mar_runtime import resources
from transformer_sdk.model_server import container


@pytest.mark.parametrize(("wanted", "found"), [(None, 2), (1, 1), (8, 2), (0, 0)])
def test_gpus_are_those_there_or_fewer_if_so_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: int | None, found: int
) -> None:
    for device in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / device).touch()
    monkeypatch.setattr(resources, "_DEVICES", tmp_path)

    assert resources.gpus(wanted) == found


@pytest.mark.parametrize(("left", "free"), [(None, 5000), (2400, 2400), (8400, 5000)])
def test_free_memory_is_the_machines_or_what_the_container_has_left(
    monkeypatch: pytest.MonkeyPatch, left: int | None, free: int
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=5000))
    monkeypatch.setattr(container, "memory_left", lambda: left)

    assert resources.free_memory() == free
