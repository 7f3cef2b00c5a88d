"""What there is for workers: GPUs and memory. Read from the system."""

from __future__ import annotations

from pathlib import Path

import psutil

from transformer_sdk.model_server import container

_DEVICES = Path("/dev")


def gpus(wanted: int | None) -> int:
    """How many there are, at most `wanted`; found without loading CUDA."""
    there = len(list(_DEVICES.glob("nvidia[0-9]*")))
    return there if wanted is None else min(there, wanted)


def free_memory() -> int:
    """Bytes that may still be taken: the machine's, or fewer where the container's limit is lower."""
    available: int = psutil.virtual_memory().available
    left = container.memory_left()
    return available if left is None else min(available, left)
