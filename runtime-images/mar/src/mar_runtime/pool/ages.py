"""When a worker process is old enough to be replaced."""

from __future__ import annotations

from mar_runtime.pool.worker_pool import PoolPolicy
from mar_runtime.pool.worker_process import WorkerProcess

_MEMORY_CHECK_S = 1.0
_MIB = 1024 * 1024


def too_old(worker: WorkerProcess, policy: PoolPolicy, now: float) -> str:
    """Return why a worker must be replaced, by the batches that it served and its memory; empty if it must not."""
    if policy.max_requests and worker.served >= policy.max_requests:
        return f"it served {worker.served} batches"
    if policy.max_memory_mib and now - worker.measured_at > _MEMORY_CHECK_S:
        worker.measured_at = now
        held = worker.memory_bytes() // _MIB
        if held > policy.max_memory_mib:
            return f"it holds {held} MiB of memory"
    return ""
