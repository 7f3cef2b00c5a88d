"""CPU and memory limits of this container, from its cgroup: version 2 or, on older nodes, version 1."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
# Without a limit, version 1 reports the largest multiple of the page size, which is above this.
_UNLIMITED = 2**62


def processors() -> int:
    """Return the number of usable processors: the affinity's, or the container's limit if it is lower."""
    return processor_limit() or _affinity()


def processor_limit() -> int | None:
    """Return the container's CPU limit, rounded up, if it is lower than the affinity's number; else None."""
    files = ("cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")
    quota, period, *_ = (*(field for file in files for field in _fields(file)), "max", "")
    limit = math.inf if quota in ("max", "-1") else max(1, math.ceil(int(quota) / int(period)))
    return int(limit) if limit < _affinity() else None


def memory_limit() -> int | None:
    """Return the container's memory limit in bytes, or None."""
    limit, *_ = (*_fields("memory.max"), *_fields("memory/memory.limit_in_bytes"), "max")
    return None if limit == "max" or int(limit) >= _UNLIMITED else int(limit)


def memory() -> int:
    """Return the bytes that the container may use: its limit, or the memory of the machine."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory_limit() or machine, machine)


def memory_left() -> int | None:
    """Return the bytes left below the memory limit, or None without one; the inactive page cache counts as left."""
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
    fields = _fields(file)
    return int(fields[fields.index(name) + 1])


def _fields(file: str) -> Sequence[str]:
    path = _GROUPS / file
    return path.read_text().split() if path.is_file() else ()
