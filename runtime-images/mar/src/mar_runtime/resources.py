"""What this container has: processors and GPUs. Read from the system, once, at the start."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
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
