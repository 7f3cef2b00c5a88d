"""Makes the forkserver reap orphaned processes, and import without collecting garbage. It imports this module first.

When a worker ends, child processes that its handler did not wait for would otherwise become children of the container's
first process. That is the server, which reaps none: zombies would accumulate up to the limit of processes.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import warnings

_PR_SET_CHILD_SUBREAPER = 36  # from <linux/prctl.h>; forked processes do not inherit it

if sys.platform == "linux":
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
# The forkserver waits for every child, and warns about those that it did not fork.
warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")
# Imports create hundreds of thousands of objects and little garbage.
gc.disable()
