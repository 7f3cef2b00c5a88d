"""A folder in which the servers of a node keep sets of installed packages.

A set is named by a digest of all that is in it, and has this name once it is complete. Each set has a lock, which the
kernel releases when its holder is killed: exclusive for filling it, shared for using it. Servers import from the set
itself, so it keeps the bytecode that Python writes, too. Sets that were used least recently are evicted first, and none
that is in use.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import fcntl
import logging
import os
import secrets
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torchserve_compat.limits import MAX_PACKAGES

log = logging.getLogger(__name__)

_POLL_S: Final = 0.1
# The locks of the sets that this process uses. Workers import from them at any time, so they are held until it ends.
_in_use: list[int] = []


@dataclass(frozen=True)
class PackageCache:
    """At most `limit` bytes below `root`, unless sets in use take more."""

    root: Path
    limit: int = MAX_PACKAGES

    @property
    def downloads(self) -> Path:
        return self.root / "uv"

    def prepare(self) -> None:
        """Create the folder if necessary, private to this user; raises OSError if it cannot be used."""
        self.root.mkdir(parents=True, exist_ok=True)
        if self.root.lstat().st_uid != os.geteuid():
            raise OSError(errno.EPERM, "it is another user's")
        # The kubelet opens all of a volume to the pod's group whenever it mounts it.
        self.root.chmod(0o700)

    async def provide(self, key: str, fill: Callable[[Path], Awaitable[None]]) -> Path:
        """Return the folder of a set, which stays while this process runs; `fill` installs it if it is not there."""
        folder, lock = self.root / key, _open_lock(self.root / key)
        try:
            await _acquire(lock, fcntl.LOCK_SH)
            while not await asyncio.to_thread(folder.exists):
                await _acquire(lock, fcntl.LOCK_EX)
                if not await asyncio.to_thread(folder.exists):
                    await self._fill(folder, fill)
                await _acquire(lock, fcntl.LOCK_SH)
            os.utime(lock)
        except BaseException:
            os.close(lock)
            raise
        _in_use.append(lock)
        return folder

    async def _fill(self, folder: Path, fill: Callable[[Path], Awaitable[None]]) -> None:
        await asyncio.to_thread(_remove_attempts, folder)
        work = _attempt(folder)
        await fill(work)
        await asyncio.to_thread(_write_to_disk, work)
        work.rename(folder)

    def is_full(self) -> bool:
        return size_of(self.root) > self.limit

    def evict(self) -> None:
        """Remove sets until the folder takes no more than its limit; uv must not have links to their files."""
        for lock in sorted(self.root.glob("*.lock"), key=lambda path: path.stat().st_mtime):
            if self.is_full():
                _evict(lock.with_suffix(""))


def size_of(folder: Path) -> int:
    """Return the bytes that a folder takes on its disk; several links to a file count once."""
    sizes = {}
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # uv of another server has removed it just now
                status = Path(path, name).lstat()
                sizes[status.st_ino] = 512 * status.st_blocks
    return sum(sizes.values())


def _evict(folder: Path) -> None:
    lock = _open_lock(folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.exists():
            folder.rename(_attempt(folder))  # at once: half a set must not have its name
            log.info("removed from %s: packages that were not used for longest", folder.parent)
        _remove_attempts(folder)
    except BlockingIOError:
        return
    finally:
        os.close(lock)


def _attempt(folder: Path) -> Path:
    """Return a new name: uv may survive a server that is killed, and goes on to write to the old one."""
    return folder.with_suffix(f".{secrets.token_hex(4)}")


def _remove_attempts(folder: Path) -> None:
    for left in folder.parent.glob(f"{folder.name}.*"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)


def _open_lock(folder: Path) -> int:
    """Open the lock of a set. Its file is never deleted: a server that waits for it would wait for a deleted one."""
    return os.open(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


async def _acquire(lock: int, operation: int) -> None:
    waiting = False
    while True:
        try:
            return fcntl.flock(lock, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if not waiting:
                log.info("waiting for another server, which installs the same packages")
            waiting = True
            await asyncio.sleep(_POLL_S)


def _write_to_disk(folder: Path) -> None:
    """Write what its file system has in memory: a crash of the node would leave empty files in the folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)
