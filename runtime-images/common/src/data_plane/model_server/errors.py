"""Errors that end a model server; each class has an exit code, and its text is the termination message.

    code  class                 what to check
    1     (unexpected)          the traceback in the log
    2     (wrong flags)         --help
    3     ConfigurationError    config/config.properties, the model store
    4     ModelFailed           the model's archive: its handler, its dependencies

Errors of requests are in `data_plane.errors`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

from data_plane.log_lines import one_line

log = logging.getLogger(__name__)


class StartError(Exception):
    """Base class. The text is one line: what failed, where, and what to do."""

    exit_code = 1


class ConfigurationError(StartError):
    """The configuration or the model store is invalid; a restart does not help."""

    exit_code = 3


class ModelFailed(StartError):
    """A model cannot be loaded, or its worker dies repeatedly."""

    exit_code = 4


def exit_code_of(run: Callable[[], None], termination_log: Path) -> int:
    """Run a server; return its exit code. The reason for its end goes to stderr and the termination log."""
    try:
        run()
    except StartError as error:
        reason, code = str(error), error.exit_code
    except Exception as error:
        log.exception("unexpected error")
        reason, code = f"{type(error).__name__}: {error}", StartError.exit_code
    else:
        return 0
    line = one_line(" ".join(reason.split()))
    sys.stderr.write(f"{line}\n")
    try:
        termination_log.write_text(line)
    except OSError as error:
        log.debug("no termination log: %s", error)
    return code
