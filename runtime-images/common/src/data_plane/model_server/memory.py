"""Tune malloc to keep freed memory, and trim the heap after bursts of requests.

Torch frees the intermediate results of every batch. By default glibc returns this memory to the kernel, which later
provides it anew as zeroed pages: for a small network this takes a fifth of the time of batches of 8 and more.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass

from data_plane.limits import LEAST_WAVE
from data_plane.server.budget import ByteBudget

_MIB = 1024 * 1024
_TRIM_THRESHOLD = 256 * _MIB  # bytes of free memory that stay at the end of the heap
_MMAP_THRESHOLD = 32 * _MIB  # the highest value that glibc accepts: larger blocks are mapped, and unmapped when freed

# For child processes; glibc reads these variables when a process starts.
ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": str(_TRIM_THRESHOLD),
    "MALLOC_MMAP_THRESHOLD_": str(_MMAP_THRESHOLD),
}

_CALM_CHECKS = 3
_AGAIN_S = 5.0

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>


def keep_freed_memory() -> None:
    """Apply the same settings to this process, which has started already; no effect without glibc."""
    if mallopt := _of_glibc("mallopt"):
        mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD)
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD)


def trim_heap() -> None:
    """Return free memory to the kernel, which takes 15 ms for 100 MiB; no effect without glibc."""
    if trim := _of_glibc("malloc_trim"):
        trim(0)


def _of_glibc(name: str) -> Callable[..., object] | None:
    if sys.platform != "linux":
        return None
    import ctypes  # imported late to keep the server's start fast

    return getattr(ctypes.CDLL(None), name, None)


@dataclass(slots=True)
class Burst:
    """Detect the end of a burst: when many bytes of requests have been released."""

    budget: ByteBudget
    _calm_checks: int = 0

    def is_over(self) -> bool:
        """Check for the end, once a second; true once, when a few checks after a peak found few bytes in use."""
        budget = self.budget
        is_calm = budget.peak >= min(LEAST_WAVE, budget.limit // 2) and budget.held <= budget.peak // 8
        self._calm_checks = self._calm_checks + 1 if is_calm else 0
        if self._calm_checks < _CALM_CHECKS:
            return False
        self._calm_checks = budget.peak = 0
        return True


async def trim_heap_after_bursts(budget: ByteBudget) -> None:
    """Watch the budget until cancelled, and trim the heap after each burst of requests."""
    burst = Burst(budget)
    while True:
        await asyncio.sleep(1)
        if burst.is_over():
            await asyncio.to_thread(trim_heap)
            # gRPC frees what it has for a connection when its client closes it, which may be after the last request.
            await asyncio.sleep(_AGAIN_S)
            await asyncio.to_thread(trim_heap)
