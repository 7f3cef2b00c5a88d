"""Whether a file has changed since it was read."""

from __future__ import annotations

import os


def file_state(path: str) -> object:
    """Return a value that changes when the file does; None if there is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - of a path that is a text
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
