"""``python -m isvc_operator.local.guard FOLDER FD``: nothing of a run outlives it, even where isvc itself is killed.

All processes of a run belong to the group of this one. It watches two pipes: its standard input ends when isvc does,
FD ends when the run's processes do. Then whatever is left of the group is ended, and the run's folder is removed.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys

GRACE = 30.0  # seconds, as a pod's


def main(folder: str, alive: int) -> None:
    """Wait for the end of isvc, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    group = os.getpgrp()
    if os.fork():
        while True:  # a group needs a leader; the work is done by a process outside of it, which can kill it whole
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
