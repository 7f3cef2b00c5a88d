"""What the C library does with memory that is freed, told by the page faults of who takes it again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest

from data_plane.limits import LEAST_WAVE
from data_plane.model_server import memory
from data_plane.server.budget import ByteBudget, Held

# A round takes and frees what a batch does. The first rounds are not counted: glibc learns in them.
PROGRAM = """
import ctypes, resource, sys
from data_plane.model_server import memory

c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
c.malloc.argtypes, c.free.argtypes, c.memset.argtypes = (
    [ctypes.c_size_t], [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
)

def take_and_free(rounds):
    for _ in range(rounds):
        blocks = [c.malloc(16 << 20) for _ in range(4)]
        for block in blocks:
            c.memset(block, 1, 16 << 20)
        for block in blocks:
            c.free(block)

if "keep" in sys.argv:
    memory.keep_freed_memory()
take_and_free(3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
take_and_free(10)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
# Where the kernel gives 2 MiB at a time, which it need not.
FAULTS_OF_FRESH_MEMORY = 10 * 4 * 16 // 2


def faults(environment: Mapping[str, str], *arguments: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={"PYTHONPATH": ":".join(sys.path), **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout)


@pytest.mark.process
@pytest.mark.parametrize(
    ("environment", "arguments"), [(memory.ENVIRONMENT, ()), ({}, ("keep",))], ids=["a new process", "this process"]
)
def test_what_a_batch_frees_is_kept_for_the_next(environment: Mapping[str, str], arguments: tuple[str, ...]) -> None:
    assert faults(environment, *arguments) < FAULTS_OF_FRESH_MEMORY / 10


@pytest.mark.process
def test_it_goes_back_to_the_kernel_otherwise() -> None:
    assert faults({}) >= FAULTS_OF_FRESH_MEMORY


def test_a_wave_is_over_when_little_is_held_for_a_while() -> None:
    budget = ByteBudget()
    burst, held = memory.Burst(budget), Held(budget)
    held.add(LEAST_WAVE)
    checks = [burst.is_over() for _ in range(5)]
    held.release()

    assert [*checks, *(burst.is_over() for _ in range(5))] == [*[False] * 5, False, False, True, False, False]


def test_one_that_comes_back_is_not_over() -> None:
    budget = ByteBudget()
    burst, checks = memory.Burst(budget), []
    for _ in range(5):
        held = Held(budget)
        held.add(LEAST_WAVE)
        checks.append(burst.is_over())
        held.release()
        checks += [burst.is_over(), burst.is_over()]

    assert not any(checks)


def test_small_requests_make_none() -> None:
    budget = ByteBudget()
    held = Held(budget)
    held.add(LEAST_WAVE - 1)
    held.release()

    assert not any(memory.Burst(budget).is_over() for _ in range(10))


RETURNING = """
import ctypes, sys
from data_plane.model_server import memory

def resident():
    return int(open("/proc/self/statm").read().split()[1])

memory.keep_freed_memory()
before = resident()
bodies = [bytes(6_000_000) + b"x" for _ in range(20)]
grown = resident() - before
del bodies
kept = resident() - before
memory.trim_heap()
print(grown > 20_000, kept > 20_000, resident() - before < 5_000)
"""


@pytest.mark.process
def test_what_a_wave_has_freed_goes_back_to_the_kernel() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RETURNING],
        env={"PYTHONPATH": ":".join(sys.path)}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.split() == ["True"] * 3
