"""Why a model server ends: each class is one exit code, and its text is the termination message.

    code  class                 what to look at
    1     (unexpected)          the traceback in the log
    2     (wrong flags)         --help
    3     ConfigurationError    config/config.properties, the model store
    4     ModelFailed           the model's archive: its handler, its dependencies

A request's errors are another matter: `data_plane.errors`.
"""

from __future__ import annotations


class StartError(Exception):
    """Root. The text is one line: what, where, what to do."""

    exit_code = 1


class ConfigurationError(StartError):
    """The configuration or the model store is wrong; a new start does not help."""

    exit_code = 3


class ModelFailed(StartError):
    """A model cannot be loaded, or its worker dies again and again."""

    exit_code = 4
