"""When a worker process is old enough to be replaced."""

from __future__ import annotations

import time
from collections.abc import Callable

from mar_runtime.pool.worker_pool import PoolPolicy
from mar_runtime.pool.worker_process import WorkerProcess

_MEMORY_CHECK_S = 1.0
_MIB = 1024 * 1024


class WorkerAges:
    """Compares workers with the limits of a policy: the batches that they served, and their memory."""

    def __init__(self, policy: PoolPolicy, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy = policy
        self._clock = clock
        self._memory_checked: dict[WorkerProcess, float] = {}

    def too_old(self, worker: WorkerProcess) -> str:
        """Return why the worker must be replaced; empty if it must not."""
        policy = self._policy
        if policy.max_requests and worker.served >= policy.max_requests:
            return f"it served {worker.served} batches"
        now = self._clock()
        if policy.max_memory_mib and now - self._memory_checked.get(worker, 0.0) > _MEMORY_CHECK_S:
            self._memory_checked[worker] = now
            held = worker.memory_bytes() // _MIB
            if held > policy.max_memory_mib:
                return f"it holds {held} MiB of memory"
        return ""

    def forget(self, worker: WorkerProcess) -> None:
        """Forget a worker that is gone."""
        self._memory_checked.pop(worker, None)
