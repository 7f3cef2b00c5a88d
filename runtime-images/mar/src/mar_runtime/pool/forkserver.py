"""The process from which workers are forked: it has imported what all of them need. multiprocessing runs it."""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import signal
from contextlib import suppress
from multiprocessing.context import ForkServerContext
from typing import Any


def workers_context(*, cuda: bool) -> ForkServerContext:
    """Return the context whose forkserver process has imported what all workers need.

    With CUDA, it imports only torch: CUDA does not survive a fork, and TorchServe's handlers initialize it on import.
    """
    context = multiprocessing.get_context("forkserver")
    touching_cuda = [] if cuda else ["mar_runtime.worker.handler", "ts.torch_handler.base_handler"]
    first, last = "mar_runtime.worker.forkserver.before_imports", "mar_runtime.worker.forkserver.after_imports"
    context.set_forkserver_preload([first, "torch", *touching_cuda, last])
    return context


def begin(*, cuda: bool) -> None:
    """Begin the process and its imports; otherwise, the first worker does."""
    workers_context(cuda=cuda)
    with suppress(OSError):  # files or processes are short: the first worker tries again, and says so
        multiprocessing.forkserver.ensure_running()


def end() -> None:
    """End the process if it runs: no model has worker processes. One that is loaded later begins it anew."""
    running: Any = multiprocessing.forkserver._forkserver
    tracker: Any = multiprocessing.resource_tracker._resource_tracker  # which began with it
    if running._forkserver_pid is not None:
        os.kill(running._forkserver_pid, signal.SIGKILL)  # otherwise, it first completes its imports
        running._stop()
        tracker._stop()
