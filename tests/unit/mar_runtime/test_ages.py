"""When a worker is old enough to be replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from mar_runtime.pool.ages import too_old
from mar_runtime.pool.worker_pool import PoolPolicy
from mar_runtime.pool.worker_process import WorkerProcess

MIB = 1024 * 1024


@dataclass(eq=False)
class Worker:
    served: int = 0
    memory_mib: int = 0
    looks: int = 0
    measured_at: float = 0.0

    def memory_bytes(self) -> int:
        self.looks += 1
        return self.memory_mib * MIB


def reason(policy: PoolPolicy, **worker: int) -> str:
    return too_old(cast(WorkerProcess, Worker(**worker)), policy, 100.0)


@pytest.mark.parametrize(
    ("policy", "worker", "expected"),
    [
        (PoolPolicy(), {"served": 10_000, "memory_mib": 10_000}, ""),
        (PoolPolicy(max_requests=5), {"served": 4}, ""),
        (PoolPolicy(max_requests=5), {"served": 5}, "it served 5 batches"),
        (PoolPolicy(max_memory_mib=100), {"memory_mib": 100}, ""),
        (PoolPolicy(max_memory_mib=100), {"memory_mib": 101}, "it holds 101 MiB of memory"),
    ],
)
def test_a_worker_is_replaced_beyond_its_limits(policy: PoolPolicy, worker: dict[str, int], expected: str) -> None:
    assert reason(policy, **worker) == expected


def test_memory_is_read_at_most_once_a_second_for_each_worker() -> None:
    worker = Worker(memory_mib=50)
    for now in (100.0, 100.5, 101.0, 101.5):
        too_old(cast(WorkerProcess, worker), PoolPolicy(max_memory_mib=100), now)

    assert worker.looks == 2
