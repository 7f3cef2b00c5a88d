"""Why a request could not be made, or had no good answer. ``cli`` turns these into exit codes."""

from __future__ import annotations

from isvc_operator.errors import OperatorError


class UnusableRequest(OperatorError):
    """The data or a flag is invalid; the message names it and what to change (exit code 2)."""


class PredictFailed(OperatorError):
    """The service cannot be reached, or does not answer (exit code 1)."""
