"""What the C library does with memory that is freed, told by the page faults of who takes it again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest

from transformer_sdk.model_server import memory

# A round takes and frees what a batch does. The first rounds are not counted: glibc learns in them.
PROGRAM = """
import ctypes, resource, sys
from transformer_sdk.model_server import memory

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


@pytest.mark.parametrize(
    ("environment", "arguments"), [(memory.ENVIRONMENT, ()), ({}, ("keep",))], ids=["a new process", "this process"]
)
def test_what_a_batch_frees_is_kept_for_the_next(environment: Mapping[str, str], arguments: tuple[str, ...]) -> None:
    assert faults(environment, *arguments) < FAULTS_OF_FRESH_MEMORY / 10


def test_it_goes_back_to_the_kernel_otherwise() -> None:
    assert faults({}) >= FAULTS_OF_FRESH_MEMORY
