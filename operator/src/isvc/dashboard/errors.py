"""Why the dashboard refuses something."""

from __future__ import annotations

from isvc_operator.errors import OperatorError


class DashboardFailed(OperatorError):
    """The dashboard cannot be served."""


class HttpRefusal(OperatorError):
    """A request is not answered; ``status`` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotSignedIn(OperatorError):
    """Nobody is known by the token, or not any more."""
