"""GPUs, threads and memory for workers, from the system and from environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

import psutil

from data_plane.model_server import container

_DEVICES = Path("/dev")


def gpus(wanted: int | None, environment: Mapping[str, str]) -> int:
    """Return the number of GPUs that torch may use, at most `wanted`; CUDA is not loaded for it."""
    there = len(list(_DEVICES.glob("nvidia[0-9]*")))
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    usable = there if visible is None else min(there, _visible(visible, there))
    return usable if wanted is None else min(usable, wanted)


def _visible(entries: str, there: int) -> int:
    """Count the entries as CUDA does: an invalid entry hides the entries after it, and a duplicate hides all."""

    def names_one(entry: str) -> bool:
        return entry.startswith(("GPU-", "MIG-")) or (entry.isdecimal() and int(entry) < there)

    named = list(takewhile(names_one, (entry.strip() for entry in entries.split(","))))
    if len(set(named)) < len(named):
        return 0
    instances = [entry for entry in named if entry.startswith("MIG-")]
    return 1 if instances else len(named)  # a process can use only the first MIG instance


def threads(environment: Mapping[str, str]) -> int | None:
    """Return the number of threads in OMP_NUM_THREADS; None if it is not set or not valid for OpenMP."""
    outermost = environment.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return (int(outermost) or None) if outermost.isdecimal() else None


def free_memory() -> int:
    """Return the available memory of the machine or of the container, whichever is lower, in bytes."""
    available: int = psutil.virtual_memory().available
    left = container.memory_left()
    return available if left is None else min(available, left)
