"""Errors of requests to the API server; ``client`` raises them."""

from __future__ import annotations

from isvc_operator.errors import OperatorError


class KubeError(OperatorError):
    """The API server refused or failed a request.

    ``status`` is the HTTP status, 0 if there was no response.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_transient(self) -> bool:
        """Whether the API server was busy, restarting or out of reach, so that the same request may succeed soon."""
        return self.status in (0, 429) or self.status >= 500


class ObjectNotFound(KubeError):
    """404: the object does not exist."""


class Conflict(KubeError):
    """409: another manager owns a field of the request, or the object has changed meanwhile."""


class RequestRefused(KubeError):
    """400, 403 or 422: the request is not allowed or not valid; only a change of spec, RBAC or policy helps."""


def error_for(status: int, message: str) -> KubeError:
    """Return the error for an HTTP status of the API server."""
    kinds: dict[int, type[KubeError]] = {
        400: RequestRefused,
        403: RequestRefused,
        404: ObjectNotFound,
        409: Conflict,
        422: RequestRefused,
    }
    return kinds.get(status, KubeError)(status, message)
