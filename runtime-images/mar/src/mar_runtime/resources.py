"""What there is for workers: GPUs, threads and memory. Read from the system, and from what the user says of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

import psutil

from data_plane.model_server import container

_DEVICES = Path("/dev")


def gpus(wanted: int | None, environment: Mapping[str, str]) -> int:
    """How many torch may use, at most `wanted`; found without loading CUDA."""
    there = len(list(_DEVICES.glob("nvidia[0-9]*")))
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    usable = there if visible is None else min(there, _visible(visible, there))
    return usable if wanted is None else min(usable, wanted)


def _visible(entries: str, there: int) -> int:
    """As CUDA reads it: an entry that names no GPU hides those behind it, and one that is there twice hides all."""

    def names_one(entry: str) -> bool:
        return entry.startswith(("GPU-", "MIG-")) or (entry.isdecimal() and int(entry) < there)

    named = list(takewhile(names_one, (entry.strip() for entry in entries.split(","))))
    if len(set(named)) < len(named):
        return 0
    instances = [entry for entry in named if entry.startswith("MIG-")]
    return 1 if instances else len(named)  # of all parts of GPUs, a process is given the first only


def threads(environment: Mapping[str, str]) -> int | None:
    """How many the user gives torch by OMP_NUM_THREADS; None where it is not set, or no number that OpenMP obeys."""
    outermost = environment.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return (int(outermost) or None) if outermost.isdecimal() else None


def free_memory() -> int:
    """Bytes that may still be taken: the machine's, or fewer where the container's limit is lower."""
    available: int = psutil.virtual_memory().available
    left = container.memory_left()
    return available if left is None else min(available, left)
