"""The limit of open files, and the number of connections that it allows."""

from __future__ import annotations

import sys

from data_plane.limits import FILE_RESERVE, MAX_OPEN_FILES


def raise_limit() -> int:
    """Raise the soft limit to the hard limit, at most to MAX_OPEN_FILES; return the soft limit."""
    if sys.platform == "win32":
        return MAX_OPEN_FILES
    import resource

    soft, hard = (
        MAX_OPEN_FILES if limit == resource.RLIM_INFINITY else limit
        for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    wanted = max(soft, min(hard, MAX_OPEN_FILES))
    if wanted > soft:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def connections_within(files: int, wanted: int, each: int = 2) -> int:
    """Return how many of `wanted` connections fit; each needs `each` files: one may be for an upstream server."""
    reserve = min(FILE_RESERVE, files // 2)
    return max(1, min(wanted, (files - reserve) // each))
