"""The exceptions that hooks raise, under KServe's names and with KServe's status codes.

The response to any other exception is a 500 with its type and text; the log has its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence

from data_plane import errors

_LOWEST_ERROR = 400


class ModelMissingError(Exception):
    """There is no model at this path."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(path)


class InferenceError(errors.ServingError, RuntimeError):
    """The model has failed: 500, or ``status`` if it is an HTTP error's number. The message begins with ``status``."""

    component = "model"

    def __init__(self, reason: str, status: str | int | None = None, debug_details: object = None) -> None:
        self.reason = reason
        self.debug_details = debug_details
        given = None if status is None else str(status)
        self.status = int(given) if given and given.isdigit() and int(given) >= _LOWEST_ERROR else 500
        super().__init__(reason if given is None else f"[{given}] {reason}")


class InvalidInput(errors.InvalidRequest, ValueError):
    """The request is invalid: 400."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ModelNotFound(errors.NotFound):
    """The server has no such model: 404."""

    def __init__(self, model_name: str | None = None) -> None:
        self.reason = f"Model with name {model_name} does not exist."
        super().__init__(self.reason)


class _Detailed(errors.NotReady, RuntimeError):
    def __init__(self, message: str, detail: str | None) -> None:
        self.error_msg = f"{message} {detail}" if detail else message
        super().__init__(self.error_msg)


class ModelNotReady(_Detailed):
    """The model cannot serve requests yet: 503."""

    def __init__(self, model_name: str, detail: str | None = None) -> None:
        self.model_name = model_name
        super().__init__(f"Model with name {model_name} is not ready.", detail)


class ServerNotReady(_Detailed):
    """The server cannot serve requests yet: 503."""

    def __init__(self, detail: str | None = None) -> None:
        super().__init__("Server is not ready.", detail)


class ServerNotLive(_Detailed):
    """The server is not live: 503."""

    def __init__(self, detail: str | None = None) -> None:
        super().__init__("Server is not live.", detail)


class UnsupportedProtocol(errors.Unsupported):
    """The model does not support the protocol: 501."""

    def __init__(self, protocol_version: str | None = None) -> None:
        self.reason = f"Unsupported protocol {protocol_version}."
        super().__init__(self.reason)


class WorkersShouldBeLessThanMaxWorkersError(Exception):
    """More workers are requested than are allowed."""

    def __init__(self, max_workers: int | None = None) -> None:
        self.reason = f"Workers cannot be greater than {max_workers}"
        super().__init__(self.reason)


class NoModelReady(RuntimeError):
    """`ModelServer.start` was given models, and none of them can serve requests."""

    def __init__(self, models: Sequence[object], detail: str | None = None) -> None:
        self.models = models
        self.detail = detail
        names = [str(getattr(model, "name", model)) for model in models]
        subject = f"Model with name {names[0]} is" if len(names) == 1 else f"Models with names {','.join(names)} are"
        super().__init__(f"{subject} not ready." + (f" {detail}" if detail else ""))
