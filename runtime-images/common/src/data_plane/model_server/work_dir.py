"""The work folder of a server: private to its user, and used by one server at a time.

Code from archives is unpacked there and run, and the sockets of workers are there. The default is below a folder that
every user of the machine can write to, so an existing folder is not trusted: another user may have created it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from data_plane.model_server.errors import StartError

_ANOTHER = "choose another by --work-dir"
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Create `folder`, private to this user, and lock it for the duration of the block.

    Raises StartError for a folder that is a link, belongs to another user, can be written to by others, or is in use.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if os.path.islink(folder):  # noqa: PTH114 - Path.is_symlink raises for a name that is too long
            raise StartError(f"{folder} is a link, which anybody may have put there; {_ANOTHER}.") from error
        raise StartError(f"{folder} cannot be written to: {error.strerror}; {_ANOTHER}.") from error
    try:
        _check_private(folder, os.fstat(directory))
        with _lock(folder, directory):
            yield
    finally:
        os.close(directory)


def _check_private(folder: Path, found: os.stat_result) -> None:
    user = os.geteuid()
    if found.st_uid != user:
        raise StartError(f"{folder} belongs to user {found.st_uid}, and this server runs as user {user}; {_ANOTHER}.")
    if found.st_mode & _WRITABLE_BY_OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        raise StartError(
            f"Others can write to {folder} (mode {mode:04o}), and this server runs what is in it; "
            f"name a folder below it by --work-dir, or run chmod go-w on it."
        )


@contextlib.contextmanager
def _lock(folder: Path, directory: int) -> Iterator[None]:
    try:
        lock = os.open("lock", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    except OSError as error:
        raise StartError(f"{folder} cannot be written to: {error.strerror}; {_ANOTHER}.") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartError(f"{folder} is in use by another server; {_ANOTHER}.") from None
        yield
    finally:
        os.close(lock)
