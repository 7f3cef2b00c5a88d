"""What can go wrong between us and the API server: one tree, translated in one place (``client``)."""

from __future__ import annotations

from isvc_operator.errors import OperatorError


class KubeError(OperatorError):
    """The API server refused or failed a request.

    ``status`` is the HTTP status, 0 when no answer came.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def may_pass(self) -> bool:
        """Whether the API server was busy, restarting or out of reach: then the same request may work in a moment."""
        return self.status in (0, 429) or self.status >= 500


class NotFound(KubeError):
    """404: what was asked for is gone."""


class Conflict(KubeError):
    """409: another manager owns a field that we would set, or the object changed meanwhile."""


class Refused(KubeError):
    """400, 403 or 422: the request itself is not acceptable; only a change of spec, RBAC or policy helps."""


def error_for(status: int, message: str) -> KubeError:
    """The error class for an HTTP status of the API server."""
    kinds: dict[int, type[KubeError]] = {
        400: Refused,
        403: Refused,
        404: NotFound,
        409: Conflict,
        422: Refused,
    }
    return kinds.get(status, KubeError)(status, message)
