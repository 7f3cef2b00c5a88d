"""Whose a listening port of this machine is, as Linux tells: another process may have taken that of a container."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_LISTENING = "0A"


def is_foreign(port: int, process: int) -> bool:
    """Return whether only others than a process and what it has started listen on a port.

    False where that cannot be told: the system has no /proc, or hides what a process has open.
    """
    try:
        sockets = {f"socket:[{inode}]" for inode in _listening_on(port)}
        return bool(sockets) and not any(sockets & set(_open_files(one)) for one in _with_descendants(process))
    except OSError:
        return False


def _listening_on(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        with suppress(FileNotFoundError):  # there is no IPv6
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                    yield inode


def _with_descendants(process: int) -> set[int]:
    """Return a process, its group, and all that they have started."""
    parents: dict[int, tuple[int, int]] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                _, parent, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
                parents[int(folder.name)] = int(parent), int(group)
    found: set[int] = set()
    more = {process}
    while more:
        found |= more
        more = {one for one, (parent, group) in parents.items() if parent in found or group == process} - found
    return found


def _open_files(process: int) -> Iterator[str]:
    with suppress(FileNotFoundError, ProcessLookupError):
        for link in (_PROC / str(process) / "fd").iterdir():
            with suppress(FileNotFoundError):
                yield str(link.readlink())
