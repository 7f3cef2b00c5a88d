"""When a worker is old enough to be replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from mar_runtime.pool.ages import WorkerAges
from mar_runtime.pool.worker_pool import PoolPolicy
from mar_runtime.pool.worker_process import WorkerProcess

MIB = 1024 * 1024


@dataclass(eq=False)
class Worker:
    served: int = 0
    memory_mib: int = 0
    looks: int = 0

    def memory_bytes(self) -> int:
        self.looks += 1
        return self.memory_mib * MIB


def reason(policy: PoolPolicy, **worker: int) -> str:
    return WorkerAges(policy, clock=lambda: 100.0).too_old(cast(WorkerProcess, Worker(**worker)))


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
    ages = WorkerAges(PoolPolicy(max_memory_mib=100), clock=iter((100.0, 100.5, 101.0, 101.5, 101.6)).__next__)
    worker = Worker(memory_mib=50)

    for _ in range(4):
        ages.too_old(cast(WorkerProcess, worker))
    ages.forget(cast(WorkerProcess, worker))
    ages.too_old(cast(WorkerProcess, worker))

    assert worker.looks == 3
