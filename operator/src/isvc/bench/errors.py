"""The errors of ``isvc bench``; ``cli`` turns them into exit codes."""

from __future__ import annotations

from isvc_operator.errors import OperatorError


class Unreachable(OperatorError):
    """No connection could be opened; the message says why."""
