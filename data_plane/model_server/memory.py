"""How the C library gives memory back: hardly ever, but after a wave of requests.

Torch frees the intermediate results of every batch. By default glibc returns them to the kernel, which hands them out
again page by page, all zeroed: of a small network's time on batches of 8 and more that is a fifth.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass

from data_plane.limits import LEAST_WAVE
from data_plane.server.budget import ByteBudget

_MIB = 1024 * 1024
_TRIM_THRESHOLD = 256 * _MIB  # free memory at the end of the heap that is kept
_MMAP_THRESHOLD = 32 * _MIB  # the highest that glibc takes: larger blocks are mapped, and unmapped when freed

# For processes that are started from this one; read by glibc when they start.
ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": str(_TRIM_THRESHOLD),
    "MALLOC_MMAP_THRESHOLD_": str(_MMAP_THRESHOLD),
}

_CALM_LOOKS = 3

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>


def keep_freed_memory() -> None:
    """The same for this process, which has started already. Without glibc nothing is changed."""
    if mallopt := _of_glibc("mallopt"):
        mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD)
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD)


def give_back() -> None:
    """What is free goes back to the kernel, once. Takes 15 ms for 100 MiB; without glibc nothing is done."""
    if trim := _of_glibc("malloc_trim"):
        trim(0)


def _of_glibc(name: str) -> Callable[..., object] | None:
    if sys.platform != "linux":
        return None
    import ctypes  # not before it is needed: servers start in a moment

    return getattr(ctypes.CDLL(None), name, None)


@dataclass(slots=True)
class Wave:
    """Tells when many bytes of requests are gone again."""

    budget: ByteBudget
    _calm_looks: int = 0

    def is_over(self) -> bool:
        """Looked at once a second: true once, when little has been held for a few looks after much."""
        budget = self.budget
        is_calm = budget.peak >= min(LEAST_WAVE, budget.limit // 2) and budget.held <= budget.peak // 8
        self._calm_looks = self._calm_looks + 1 if is_calm else 0
        if self._calm_looks < _CALM_LOOKS:
            return False
        self._calm_looks = budget.peak = 0
        return True


async def give_back_after_waves(budget: ByteBudget) -> None:
    """For ever."""
    wave = Wave(budget)
    while True:
        await asyncio.sleep(1)
        if wave.is_over():
            await asyncio.to_thread(give_back)
