"""How many files this process may open, and how many of them are for connections."""

from __future__ import annotations

import sys

from data_plane.limits import FILE_RESERVE, MAX_FILES


def raise_limit() -> int:
    """The soft limit, raised as far as the hard one goes and no further than MAX_FILES."""
    if sys.platform == "win32":
        return MAX_FILES
    import resource

    soft, hard = (
        MAX_FILES if limit == resource.RLIM_INFINITY else limit for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    wanted = max(soft, min(hard, MAX_FILES))
    if wanted > soft:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def connections_within(files: int, wanted: int) -> int:
    """How many of `wanted` connections there may be. Each may need another one, to a server behind this one."""
    reserve = min(FILE_RESERVE, files // 2)
    return max(1, min(wanted, (files - reserve) // 2))
