"""``python -m isvc.run.guard FOLDER FD``: clean up after a run, even if isvc itself is killed.

Each container of a run is a process group. Its standard input names them (``+ID``, and ``-ID`` for one that has ended),
and is closed when isvc exits. FD is closed when the run's processes have exited. Then what is left of the groups is
killed, and the run's folder is removed.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
from contextlib import suppress

GRACE = 30.0  # seconds, as a pod's


def main(folder: str, alive: int) -> None:
    """Wait until isvc exits, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        (groups.add if line.startswith("+") else groups.discard)(int(line[1:]))
    _signal(groups, signal.SIGTERM)
    if groups:
        select.select([alive], [], [], GRACE)
    _signal(groups, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def _signal(groups: set[int], number: signal.Signals) -> None:
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):  # macOS refuses to signal a group of zombies
            os.killpg(group, number)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
