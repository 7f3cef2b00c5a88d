"""Folders that only this user can change, however many others write beside them.

A name below a shared folder can be foreseen: somebody may have put a link there, or a folder of their own. Such a
thing is never followed or written to.
"""

from __future__ import annotations

import os
import stat


def is_private(status: os.stat_result) -> bool:
    """Whether it is a folder of this user, and nobody else can write to it; of a link, that it is none."""
    writable_by_others = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & writable_by_others
