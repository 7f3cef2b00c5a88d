"""Errors that end a model server; each class has an exit code, and its text is the termination message.

    code  class                 what to check
    1     (unexpected)          the traceback in the log
    2     (wrong flags)         --help
    3     ConfigurationError    config/config.properties, the model store
    4     ModelFailed           the model's archive: its handler, its dependencies

Errors of requests are in `data_plane.errors`.
"""

from __future__ import annotations


class StartError(Exception):
    """Base class. The text is one line: what failed, where, and what to do."""

    exit_code = 1


class ConfigurationError(StartError):
    """The configuration or the model store is invalid; a restart does not help."""

    exit_code = 3


class ModelFailed(StartError):
    """A model cannot be loaded, or its worker dies repeatedly."""

    exit_code = 4
