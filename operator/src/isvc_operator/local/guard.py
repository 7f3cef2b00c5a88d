"""``python -m isvc_operator.local.guard FOLDER FD``: clean up after a run, even if isvc itself is killed.

All processes of a run belong to the process group of this one. It reads two pipes: its standard input is closed when
isvc exits, FD when the run's processes have. Then the remaining processes of the group are killed, and the run's folder
is removed.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys

GRACE = 30.0  # seconds, as a pod's


def main(folder: str, alive: int) -> None:
    """Wait until isvc exits, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    group = os.getpgrp()
    if os.fork():
        while (
            True
        ):  # the group needs a leader; a process outside of it does the work, so that it can kill the whole group
            signal.pause()
    os.setpgid(0, 0)
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.killpg(group, signal.SIGTERM)
    select.select([alive], [], [], GRACE)
    os.killpg(group, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
