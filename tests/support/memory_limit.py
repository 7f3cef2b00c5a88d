"""A limit of memory as a container has it: a control group, of version 1 or 2, for a process and what it starts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def memory_limit(size: int) -> Iterator[Callable[[], None]]:
    """A function for ``preexec_fn``: the process that calls it is held to the limit, page cache included."""
    old = _ROOT / "memory"
    group, limit = (old, "memory.limit_in_bytes") if old.is_dir() else (_ROOT, "memory.max")
    group = group / f"isvc-tests-{os.getpid()}"
    group.mkdir()
    try:
        (group / limit).write_text(str(size))
        yield lambda: _join(group)
    finally:
        group.rmdir()


def _join(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))
