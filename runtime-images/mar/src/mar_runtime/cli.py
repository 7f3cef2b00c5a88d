"""`python -m mar_runtime`: flags and environment → one server; errors → exit code and termination message.

The only module that reads the environment. It imports little before it begins what takes longest, a process that
imports torch.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from data_plane.garbage import no_collections
from data_plane.log_lines import configure_logging
from data_plane.model_server import libraries, memory
from data_plane.model_server.errors import exit_code_of
from data_plane.model_server.options import FlagParser, absolute, add_common_flags
from mar_runtime.pool import forkserver
from mar_runtime.resources import gpus
from torchserve_compat.store.flags import add_torchserve_flags


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server; return its exit code. The reason for its end goes to stderr and the termination log."""
    began = time.monotonic()
    options = build_parser(os.environ).parse_args(arguments)
    configure_logging(options.log_level)
    if memory.ENVIRONMENT.keys().isdisjoint(os.environ):
        memory.keep_freed_memory()
    for name, value in libraries.ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    libraries.ignore_warnings()
    if has_archives(options.model_dir):
        forkserver.begin(cuda=gpus(None, os.environ) > 0)  # it imports torch while this process imports the server
    with no_collections():
        from mar_runtime.server import run
    return exit_code_of(lambda: run(options, os.environ, began), options.termination_log)


def has_archives(folder: Path) -> bool:
    """Return whether a model directory has archives at their usual places, without reading it."""
    return any(folder.glob("*.mar")) or any(folder.glob("*/*.mar"))


def build_parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser of the flags; their defaults come from `environment`."""
    flags = FlagParser(
        "python -m mar_runtime",
        "Serve .mar archives and model files by the v1, v2 and gRPC protocols, without Java.",
        "Exit codes: 0 stopped, 1 unexpected, 2 wrong flags, 3 wrong configuration, 4 a model failed.",
        environment,
    )
    add_common_flags(flags, "mar")
    add_torchserve_flags(flags.parser)
    flags.flag("--package-cache", absolute, None, "folder in which the servers of a node keep what archives require")
    flags.flag("--worker-max-requests", int, 0, "batches after which a worker process is replaced; 0 for never")
    flags.flag("--worker-max-memory", int, 0, "MiB of memory above which a worker process is replaced; 0 for never")
    return flags.parser
