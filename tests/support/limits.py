"""Limits as a container has them: a control group, of version 1 or 2, for a process and what it starts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.support.waiting import eventually

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000  # Kubernetes' own


def memory_limit(size: int) -> contextlib.AbstractContextManager[Callable[[], None]]:
    """A function for ``preexec_fn``: the process that calls it is held to the limit, page cache included."""
    return _group("memory", {"memory.limit_in_bytes": str(size)}, {"memory.max": str(size)})


def processor_limit(count: int) -> contextlib.AbstractContextManager[Callable[[], None]]:
    """A function for ``preexec_fn``: the process that calls it gets the time of so many processors.

    It goes before processes that are not in such a group, if the machine has others.
    """
    quota = count * _PERIOD_US
    old = {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": str(quota), "cpu.shares": "262144"}
    return _group("cpu", old, {"cpu.max": f"{quota} {_PERIOD_US}", "cpu.weight": "10000"})


@contextlib.contextmanager
def _group(controller: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Callable[[], None]]:
    """A group with the files of version 1 or of version 2 written."""
    folder, files = (_ROOT / controller, old) if (_ROOT / controller).is_dir() else (_ROOT, new)
    group = folder / f"isvc-tests-{controller}-{os.getpid()}"
    group.mkdir()
    try:
        for name, text in files.items():
            (group / name).write_text(text)
        yield lambda: _join(group)
    finally:
        eventually(lambda: _removed(group), f"the processes in {group} have ended")


def _removed(group: Path) -> bool:
    """Whether the group is gone: workers end a moment after the server that they belong to."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def _join(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))
