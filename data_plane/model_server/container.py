"""What this container may use of its machine, by its control group: of version 2 or, on older nodes, of version 1."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
# What version 1 calls no limit: the largest number of bytes that fills pages.
_UNLIMITED = 2**62


def processors() -> int:
    """How many can be used at once: the affinity's, or fewer where the container's limit is lower."""
    return processor_limit() or _affinity()


def processor_limit() -> int | None:
    """The container's, rounded up, where it is lower than the affinity's number; else None."""
    files = ("cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")
    quota, period, *_ = (*(word for file in files for word in _fields(file)), "max", "")
    limit = math.inf if quota in ("max", "-1") else max(1, math.ceil(int(quota) / int(period)))
    return int(limit) if limit < _affinity() else None


def memory_limit() -> int | None:
    """Bytes; None where there is none."""
    limit, *_ = (*_fields("memory.max"), *_fields("memory/memory.limit_in_bytes"), "max")
    return None if limit == "max" or int(limit) >= _UNLIMITED else int(limit)


def memory() -> int:
    """Bytes that the container may use: its limit, or all that the machine has."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory_limit() or machine, machine)


def memory_left() -> int | None:
    """Bytes below the limit; None where there is none. What holds the content of files that are not in use is left."""
    if (limit := memory_limit()) is None:
        return None
    if _fields("memory.max"):
        used, idle = _fields("memory.current"), _statistic("memory.stat", "inactive_file")
    else:
        used, idle = _fields("memory/memory.usage_in_bytes"), _statistic("memory/memory.stat", "total_inactive_file")
    return max(0, limit - int(used[0]) + idle)


def _affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _statistic(file: str, name: str) -> int:
    words = _fields(file)
    return int(words[words.index(name) + 1])


def _fields(file: str) -> Sequence[str]:
    path = _GROUPS / file
    return path.read_text().split() if path.is_file() else ()
