"""What this container has: processors, GPUs and memory. Read from the system.

Its limits are those of its control group, of version 2 or, on older nodes, of version 1.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import psutil

_GROUPS = Path("/sys/fs/cgroup")
_DEVICES = Path("/dev")


def processors() -> int:
    """How many can be used at once: the affinity's, or fewer where the container's limit is lower."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = (_GROUPS / name for name in ("cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
    quota, period, *_ = (*(word for limit in limits for word in _words(limit)), "max", "")
    return available if quota in ("max", "-1") else max(1, min(available, math.ceil(int(quota) / int(period))))


def gpus(wanted: int | None) -> int:
    """How many there are, at most `wanted`; found without loading CUDA."""
    there = len(list(_DEVICES.glob("nvidia[0-9]*")))
    return there if wanted is None else min(there, wanted)


def free_memory() -> int:
    """Bytes that may still be taken: the machine's, or fewer where the container's limit is lower.

    What holds the content of files that are not in use counts as free.
    """
    available: int = psutil.virtual_memory().available
    for limit, used, idle in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        if (most := _words(_GROUPS / limit)) and most != ["max"]:
            statistics = _words((_GROUPS / limit).with_name("memory.stat"))
            files = int(statistics[statistics.index(idle) + 1])
            return max(0, min(available, int(most[0]) - int(_words(_GROUPS / used)[0]) + files))
    return available


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.is_file() else []
