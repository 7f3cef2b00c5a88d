"""A file at a second path, by the cheapest way that the file systems support: a hard link, a copy that shares its
blocks, a copy.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

# Errors of a file system that does not support a way, or not between these two paths.
_NOT_THIS_WAY = {
    errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOTTY, errno.EINVAL,
    errno.EBADF, errno.ETXTBSY,
}  # fmt: skip
# linux/fs.h: _IOW(0x94, 9, int)
_FICLONE = 0x40049409


def share_file(source: Path, target: Path, mode: int) -> str:
    """Return how it was done: ``linked``, ``cloned`` or ``copied``. ``target`` must not exist.

    A link has the mode of ``source``, since it is the same file; ``mode`` is that of a copy.
    """
    if _link(source, target):
        return "linked"
    with source.open("rb") as reader, target.open("xb") as writer:
        os.fchmod(writer.fileno(), mode)
        if _clone(reader.fileno(), writer.fileno()):
            return "cloned"
    shutil.copyfile(source, target)
    return "copied"


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError as error:
        return _unless_impossible(error)
    return True


def _clone(reader: int, writer: int) -> bool:
    try:
        fcntl.ioctl(writer, _FICLONE, reader)
    except OSError as error:
        return _unless_impossible(error)
    return True


def _unless_impossible(error: OSError) -> bool:
    if error.errno in _NOT_THIS_WAY:
        return False
    raise error
