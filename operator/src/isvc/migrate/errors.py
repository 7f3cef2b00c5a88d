"""How a change-over can end early. ``cli`` turns both into exit codes."""

from __future__ import annotations

from isvc_operator.errors import OperatorError


class MigrationFailed(OperatorError):
    """A step did not succeed in time. Everything that serves keeps serving, and the command can be run again."""


class MigrationRefused(OperatorError):
    """The cluster is not as the command needs it; nothing was changed."""
