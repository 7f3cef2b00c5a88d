"""What this container has: processors, GPUs and memory. Read from the system."""

from __future__ import annotations

import math
import os
from pathlib import Path

import psutil

_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_MEMORY = Path("/sys/fs/cgroup")
_DEVICES = Path("/dev")


def processors() -> int:
    """How many can be used at once: the affinity's, or fewer where the container's limit is lower."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not _CPU_QUOTA.is_file():
        return available
    quota, period = _CPU_QUOTA.read_text().split()
    return available if quota == "max" else max(1, min(available, math.ceil(int(quota) / int(period))))


def gpus(wanted: int | None) -> int:
    """How many there are, at most `wanted`; found without loading CUDA."""
    there = len(list(_DEVICES.glob("nvidia[0-9]*")))
    return there if wanted is None else min(there, wanted)


def free_memory() -> int:
    """Bytes that may still be taken: the machine's, or fewer where the container's limit is lower.

    What holds the content of files that are not in use counts as free.
    """
    available: int = psutil.virtual_memory().available
    limit = _MEMORY / "memory.max"
    if not limit.is_file() or (most := limit.read_text().strip()) == "max":
        return available
    statistics = dict(line.split() for line in (_MEMORY / "memory.stat").read_text().splitlines())
    used = int((_MEMORY / "memory.current").read_text()) - int(statistics["inactive_file"])
    return max(0, min(available, int(most) - used))
