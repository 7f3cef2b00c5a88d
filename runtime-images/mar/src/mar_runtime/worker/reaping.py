"""Imported by the process that workers are forked from, and only there: it collects what their handlers leave behind.

What a worker's handler started and did not wait for would else go to the container's first process when the worker
ends. That is the server, which collects none: the dead ones would add up to the limit of processes.
"""

from __future__ import annotations

import ctypes
import sys
import warnings

_PR_SET_CHILD_SUBREAPER = 36  # of <linux/prctl.h>; forked processes do not inherit it

if sys.platform == "linux":
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
# That process waits for every child, and warns of those that it has not forked.
warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")
