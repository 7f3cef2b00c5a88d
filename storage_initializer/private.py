"""Folders that only this user can change, however many others write beside them.

A name below a shared folder is predictable: another user may have put a link or folder there. It is never followed
or written to.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def is_private(status: os.stat_result) -> bool:
    """Return whether it is a folder of this user that no other user can write to; a link is not."""
    return _is_own(status) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@contextmanager
def private_folder(shared: Path) -> Iterator[Path]:
    """Provide the folder itself where it is private, else a folder of this user in it, created if necessary.

    In the block the path refers to the same folder, even if others rename it.
    """
    with suppress(FileExistsError):
        shared.mkdir(parents=True)
    with ExitStack() as opened:
        folder = _open(shared, opened)
        if not is_private(os.fstat(folder)):
            folder = _open_own(folder, opened)
        yield Path(f"/proc/self/fd/{folder}")


def _open_own(shared: int, opened: ExitStack) -> int:
    name = f"user-{os.geteuid()}"
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=shared)
    folder = _open(Path(name), opened, os.O_NOFOLLOW, shared)
    if not _is_own(os.fstat(folder)):
        raise OSError(errno.EPERM, f"the folder {name} in it is another user's")
    # The kubelet opens all of a volume to the pod's group whenever it mounts it.
    os.fchmod(folder, 0o700)
    return folder


def _open(path: Path, opened: ExitStack, flags: int = 0, folder: int | None = None) -> int:
    descriptor = os.open(path, _FOLDER | flags, dir_fd=folder)
    opened.callback(os.close, descriptor)
    return descriptor


def _is_own(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
