"""Every error that a client can see, each with its HTTP status.

Code anywhere below the server raises one of these; `server.app` alone turns them into answers.

    ServingError                500
    ├─ InvalidInput             400
    ├─ NotFound                 404
    │  └─ ModelNotFound         404
    ├─ MethodNotAllowed         405
    ├─ BodyTooLarge             413
    ├─ UpstreamError            the upstream's own status
    ├─ UpstreamBroken           502
    ├─ NotReady                 503 with Retry-After
    └─ UpstreamTimeout          504
"""

from __future__ import annotations

from collections.abc import Iterable


class ServingError(Exception):
    """Root of what a request can end in."""

    status = 500
    retry_after_s: int | None = None

    @property
    def message(self) -> str:
        """What the client reads."""
        return str(self)


class InvalidInput(ServingError):
    """The client's request is wrong and will stay wrong."""

    status = 400


class NotFound(ServingError):
    """There is nothing at this path."""

    status = 404


class ModelNotFound(NotFound):
    """The path is right, but no such model is served here."""

    def __init__(self, model: str, served: Iterable[str]) -> None:
        names = ", ".join(sorted(served)) or "none"
        super().__init__(f"Model with name {model} does not exist. Models served here: {names}.")


class MethodNotAllowed(ServingError):
    """The path is right, but takes other methods."""

    status = 405

    def __init__(self, method: str, path: str, allowed: Iterable[str]) -> None:
        self.allowed = ", ".join(sorted(allowed))
        super().__init__(f"{method} is not allowed on {path}; use {self.allowed}.")


class BodyTooLarge(ServingError):
    """The request has more bytes than the server takes."""

    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(f"The request body is over the limit of {limit} bytes (--max-request-size).")


class UpstreamError(ServingError):
    """The server behind this one answered with an error: its status and message are kept."""

    def __init__(self, component: str, status: int, message: str) -> None:
        self.status = status
        super().__init__(f"{component}: {message}")


class UpstreamBroken(ServingError):
    """The connection to the server behind this one broke in the middle of a request."""

    status = 502


class NotReady(ServingError):
    """Nothing is wrong with the request; the same one may work in a moment."""

    status = 503
    retry_after_s = 1


class UpstreamTimeout(ServingError):
    """The server behind this one did not answer in time."""

    status = 504
